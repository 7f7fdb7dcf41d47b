"""`maquette domain review`: a drafted domain, column by column, in the terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import typer

from maquette.cli import console
from maquette.domain import Domain
from maquette.domain import review as reviews
from maquette.domain.domain import COLUMNS, LEFT_OUT
from maquette.domain.entries import parse_attribute
from maquette.domain.remarks import check
from maquette.errors import DomainError, MaquetteError

SHOWN_CELLS = 12
CHOICES = "[c]onfirm, [e]dit, [d]rop, [s]kip, [q]uit, [?] help"
HELP = """c  confirm: it could be written down without the table; you are asked why, and that stays in the file
e  edit: type the entry of the column again, as one line of JSON; it is confirmed afterwards
d  drop: take the column out of the domain; it is in no release then
s  skip: decide later; the same command comes back to it
q  quit: what was answered is in the file already"""
MAX_ANSWERS = 50
"""Answers about one column, after which nobody seems to be there who reads the questions."""


def review_without_asking(file: Path, *, by: str, accept: Sequence[str], drop: Sequence[str]) -> None:
    """Confirm and drop the named columns; nothing is written if one of them cannot be."""
    domain = Domain.load(file)
    for name in drop:
        domain = reviews.drop(domain, name)
    for entry in accept:
        name, sign, why = entry.partition("=")
        if not sign:
            raise DomainError(f"expected --accept COLUMN=WHY, got '{entry}'")
        domain = reviews.confirm(domain, name.strip(), by=by, why=why)
    _write(file, domain)
    _say_remaining(domain, file)


def review_columns(file: Path, *, by: str | None) -> None:
    """Ask about every column that nobody has confirmed; what is answered is written at once."""
    domain = Domain.load(file)
    names = reviews.remaining(domain)
    if not names:
        console.say(f"{file} is reviewed: nothing is left to confirm")
        return
    console.say(
        f"{len(names)} of {len(domain)} columns are to be confirmed. A list or a bound is public knowledge if it"
    )
    console.say(
        "could be written down without the table: from documentation, a questionnaire, a law, common sense."
    )
    for name, note in reviews.notes_of(domain, LEFT_OUT).items():
        console.say(f"left out of the draft: {name}: {note.get('why', '')}")
        if "risk" in note:
            console.say(f"  risk: {note['risk']}")
    try:
        domain = _ask_about_all(file, domain, names, by or _ask_who())
    except (KeyboardInterrupt, typer.Abort):
        console.complain(
            f"interrupted. What was answered is in {file}; the same command continues with the rest"
        )
        raise typer.Exit(console.INTERRUPTED) from None
    _say_remaining(domain, file)


def _ask_about_all(file: Path, domain: Domain, names: Sequence[str], reviewer: str) -> Domain:
    for place, name in enumerate(names, start=1):
        console.say()
        console.say(f"({place} of {len(names)})")
        answer = _ask_about(file, domain, name, reviewer)
        if answer is None:
            break
        domain = answer
    return domain


def _ask_about(file: Path, domain: Domain, name: str, reviewer: str) -> Domain | None:
    """The domain after the answers about one column; None to stop here."""
    for _ in range(MAX_ANSWERS):
        _show(domain, name)
        choice = _answer(CHOICES, default="s").strip().lower()[:1]
        try:
            if choice == "q":
                return None
            if choice == "s":
                return domain
            if choice == "d":
                domain = reviews.drop(domain, name)
            elif choice == "c":
                domain = reviews.confirm(domain, name, by=reviewer, why=_answer("Why is it public knowledge"))
            elif choice == "e":
                domain = _edit(domain, name)
                _write(file, domain)
                continue
            else:
                console.say(HELP if choice == "?" else f"please answer with one letter: {CHOICES}")
                continue
        except MaquetteError as error:
            console.say(f"not done: {error}")
            continue
        _write(file, domain)
        return domain
    raise typer.Abort


def _ask_who() -> str:
    for _ in range(MAX_ANSWERS):
        if (who := _answer("Who reviews it")).strip():
            return who
    raise typer.Abort


def _answer(question: str, default: str = "", suffix: str = ": ") -> str:
    """One line; an empty one is the default. The end of the input, or an input that is not there, ends the review."""
    try:
        return typer.prompt(question, default=default, show_default=bool(default), prompt_suffix=suffix)
    except (OSError, RuntimeError, ValueError) as error:
        raise typer.Abort from error


def _show(domain: Domain, name: str) -> None:
    attribute = domain[name]
    note = reviews.notes_of(domain, COLUMNS).get(name, {})
    labels = [attribute.label(code) for code in range(min(attribute.cells, SHOWN_CELLS))]
    more = f", ... {attribute.cells - SHOWN_CELLS:,} more" if attribute.cells > SHOWN_CELLS else ""
    console.say(f"{name}: {attribute.kind}, {attribute.cells:,} cells: {', '.join(labels)}{more}")
    if "from" in note:
        console.say(f"  taken from: {note['from']}")
    if "risk" in note:
        console.say(f"  risk: {note['risk']}")
    for finding in check(domain):
        if finding.attribute == name:
            console.say(f"  {finding.severity}: {finding.text}")


def _edit(domain: Domain, name: str) -> Domain:
    """Another declaration, as the entry of the file spells it."""
    console.say("the entry of the file, to be typed again as one line of JSON:")
    text = _answer("", default=json.dumps(domain[name].entry(), ensure_ascii=False), suffix="")
    return reviews.edit(domain, name, parse_attribute(text))


def _write(file: Path, domain: Domain) -> None:
    from maquette.results.folder import write_domain

    write_domain(file, domain)


def _say_remaining(domain: Domain, file: Path) -> None:
    names = reviews.remaining(domain)
    if names:
        console.say(f"{len(names)} columns are still to be confirmed: {', '.join(names)}")
    else:
        console.say(f"{file} is reviewed; it can be used for releases")
