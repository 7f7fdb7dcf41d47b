"""`maquette domain review`: a drafted domain, column by column, in the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import typer

from maquette.cli import console
from maquette.domain import Attribute, Domain, Kind
from maquette.domain import review as reviews
from maquette.domain.domain import COLUMNS, LEFT_OUT
from maquette.domain.entries import parse_attribute
from maquette.domain.remarks import check
from maquette.errors import DomainError, MaquetteError

Write = Callable[[Domain], None]
"""Keeps a domain with one more answer."""
SHOWN_CELLS = 12
CHOICES = "[c]onfirm, [e]dit, [d]rop, [s]kip, [q]uit, [?] help"
HELP = """c  confirm: it could be written down without the table; you say why (Enter: as before), and that stays here
b  bounds: type the smallest and the largest value that are possible, such as 0 120
v  values: type the whole list, with commas, such as north, south, west
e  edit: type the entry of the column again, as one line of JSON; it is confirmed afterwards
d  drop: take the column out of the domain; it is in no release then
s  skip: decide later; the same command comes back to it
q  quit: what was answered is in the file already"""
MOST_CELLS = 1000
"""Cells of a column of whole numbers that has one for each, after its bounds were typed."""
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


def review_columns(file: Path, *, by: str | None, usual: bool = False) -> None:
    """Ask about every column that nobody has confirmed; what is answered is written at once.

    With `usual` the columns of usual kinds are one question, before the others.
    """
    domain = Domain.load(file)
    names = reviews.remaining(domain)
    if not names:
        console.say(f"{file} is reviewed: nothing is left to confirm")
        return
    console.say(
        f"{len(names)} of {len(domain)} columns are to be confirmed. A list or a bound is public knowledge if it could "
        "be written down without the table: from documentation, a questionnaire, a law, common sense."
    )
    for name, note in reviews.notes_of(domain, LEFT_OUT).items():
        console.say(f"left out of the draft: {name}: {note.get('why', '')}")
        if "risk" in note:
            console.say(f"  risk: {note['risk']}")
    try:
        reviewer, write = by or ask_who(), partial(_write, file)
        if usual:
            domain = _ask_about_usual(write, domain, reviewer)
        domain = ask_about_all(write, domain, reviews.remaining(domain), reviewer)
    except (KeyboardInterrupt, typer.Abort):
        console.complain(
            f"interrupted. What was answered is in {file}; the same command continues with the rest"
        )
        raise typer.Exit(console.INTERRUPTED) from None
    _say_remaining(domain, file)


def _ask_about_usual(write: Write, domain: Domain, reviewer: str) -> Domain:
    """One question for all columns of usual kinds: is that what they are?"""
    kinds = reviews.usual(domain)
    if not kinds:
        return domain
    console.say()
    console.say("These columns look like usual kinds, whose values are known without any table:")
    for name, kind in kinds.items():
        console.say(f"  {_in_a_line(domain, name)}: {kind}")
    console.say("  risk: that they are what they look like was seen in the rows; look at each")
    if not _says_yes("Is each of them what it looks like? [y]es, [n]o: ask about each"):
        return domain
    for name, kind in kinds.items():
        domain = reviews.confirm(domain, name, by=reviewer, why=kind)
    write(domain)
    return domain


def _says_yes(question: str) -> bool:
    """Yes or no; an empty line is no."""
    for _ in range(MAX_ANSWERS):
        answer = answer_to(question, "n").strip().lower()
        if answer in ("y", "yes", "n", "no"):
            return answer.startswith("y")
        console.say("please answer y or n")
    raise typer.Abort


def ask_about_all(write: Write, domain: Domain, names: Sequence[str], reviewer: str) -> Domain:
    for place, name in enumerate(names, start=1):
        console.say()
        console.say(f"({place} of {len(names)})")
        answer = _ask_about(write, domain, name, reviewer)
        if answer is None:
            break
        domain = answer
    return domain


def _ask_about(write: Write, domain: Domain, name: str, reviewer: str) -> Domain | None:
    """The domain after the answers about one column; None to stop here."""
    for _ in range(MAX_ANSWERS):
        _show(domain, name)
        choices = CHOICES.replace("[e]dit", f"{_changes(domain[name])}[e]dit")
        choice = answer_to(choices, default="s").strip().lower()[:1]
        try:
            if choice == "q":
                return None
            if choice == "s":
                return domain
            if choice == "d":
                domain = reviews.drop(domain, name)
            elif choice == "c":
                why = answer_to("Why is it public knowledge", _last_reason(domain))
                domain = reviews.confirm(domain, name, by=reviewer, why=why)
            elif choice in ("b", "v"):
                domain = _bounded(domain, name) if choice == "b" else _listed(domain, name)
                write(domain)
                continue
            elif choice == "e":
                domain = _edit(domain, name)
                write(domain)
                continue
            else:
                console.say(HELP if choice == "?" else f"please answer with one letter: {choices}")
                continue
        except MaquetteError as error:
            console.say(f"not done: {error}")
            continue
        write(domain)
        return domain
    raise typer.Abort


def ask_who() -> str:
    for _ in range(MAX_ANSWERS):
        if (who := answer_to("Who reviews it")).strip():
            return who
    raise typer.Abort


def answer_to(question: str, default: str = "", suffix: str = ": ") -> str:
    """One line; an empty one is the default. The end of the input, or an input that is not there, ends the review."""
    try:
        return typer.prompt(question, default=default, show_default=bool(default), prompt_suffix=suffix)
    except (OSError, RuntimeError, ValueError) as error:
        raise typer.Abort from error


def _show(domain: Domain, name: str) -> None:
    note = reviews.notes_of(domain, COLUMNS).get(name, {})
    console.say(_in_a_line(domain, name))
    if "from" in note:
        console.say(f"  taken from: {note['from']}")
    if "risk" in note:
        console.say(f"  risk: {note['risk']}")
    for finding in check(domain):
        if finding.attribute == name:
            console.say(f"  {finding.severity}: {finding.text}")


def _in_a_line(domain: Domain, name: str) -> str:
    attribute = domain[name]
    labels = [attribute.label(code) for code in range(min(attribute.cells, SHOWN_CELLS))]
    more = f", ... {attribute.cells - SHOWN_CELLS:,} more" if attribute.cells > SHOWN_CELLS else ""
    if attribute.bounds is not None:
        low, high = attribute.bounds
        labels, more = [f"from {low:.12g} to {high:.12g}"], ""
    return f"{name}: {attribute.kind}, {attribute.cells:,} cells: {', '.join(labels)}{more}"


def _last_reason(domain: Domain) -> str:
    """Why the column before was confirmed, often why this one is too; usual kinds have their own."""
    kinds = [note.get(reviews.USUAL) for note in reviews.notes_of(domain, COLUMNS).values()]
    reasons = [note.get("why", "") for note in reviews.notes_of(domain, reviews.REVIEWS).values()]
    return next((str(why) for why in reversed(reasons) if why not in kinds), "")


def _changes(attribute: Attribute) -> str:
    """What can be typed without JSON: bounds of numbers, values of a list."""
    bounds = attribute.bounds is not None or _holds_numbers(attribute)
    return "[b]ounds, " * bounds + "[v]alues, " * (attribute.categories is not None)


def _holds_numbers(attribute: Attribute) -> bool:
    return attribute.categories is not None and all(type(value) is int for value in attribute.categories)


def _bounded(domain: Domain, name: str) -> Domain:
    """The domain with other bounds of a column of numbers: a list becomes whole numbers, a cell for each of them."""
    attribute = domain[name]
    if not (attribute.bounds is not None or _holds_numbers(attribute)):
        raise DomainError(f"'{name}' has no bounds; [v]alues changes its list")
    words = answer_to("The smallest and the largest possible value, such as 0 120").replace(",", " ").split()
    try:
        low, high = (float(word) for word in words)
    except ValueError:
        raise DomainError("please type two numbers with a space between them") from None
    width = high - low
    if attribute.bounds is None:
        if not (low.is_integer() and width.is_integer() and 0 < width < MOST_CELLS):
            raise DomainError(f"please type two whole numbers, at most {MOST_CELLS:,} apart")
        numbers = {"bounds": [low - 0.5, high + 0.5], "bins": int(width) + 1, "integer": True}
        entry = {key: text for key, text in attribute.entry().items() if key in ("name", "nullable")}
        return reviews.edit(domain, name, parse_attribute(json.dumps(entry | {"kind": "numeric"} | numbers)))
    entry = attribute.entry() | {"bounds": [_plain(low), _plain(high)]}
    if attribute.bins == attribute.bounds[1] - attribute.bounds[0] and 0 < width <= MOST_CELLS:
        entry["bins"] = int(width) if width.is_integer() else attribute.bins
    return reviews.edit(domain, name, parse_attribute(json.dumps(entry)))


def _listed(domain: Domain, name: str) -> Domain:
    """The domain with another list of values of a column; texts in order stay in the order in which they are typed."""
    attribute = domain[name]
    if attribute.categories is None:
        raise DomainError(f"'{name}' has no list; [b]ounds changes its bounds")
    words = [word.strip() for word in answer_to("All values, with commas").split(",") if word.strip()]
    entry = attribute.entry()
    try:
        entry["categories"] = [int(word) for word in words] if _holds_numbers(attribute) else words
    except ValueError:
        raise DomainError(
            f"'{name}' has whole numbers; please type numbers with commas between them"
        ) from None
    if attribute.kind == Kind.BOOLEAN and len(words) != 2:
        entry["kind"] = "categorical"
    return reviews.edit(domain, name, parse_attribute(json.dumps(entry, ensure_ascii=False)))


def _plain(value: float) -> float | int:
    return int(value) if value.is_integer() else value


def _edit(domain: Domain, name: str) -> Domain:
    """Another declaration, as the entry of the file spells it."""
    console.say("the entry of the file, to be typed again as one line of JSON:")
    text = answer_to("", default=json.dumps(domain[name].entry(), ensure_ascii=False), suffix="")
    return reviews.edit(domain, name, parse_attribute(text))


def _write(file: Path, domain: Domain) -> None:
    from maquette.results.folder import write_domain

    write_domain(file, domain)


def _say_remaining(domain: Domain, file: Path) -> None:
    names = reviews.remaining(domain)
    if names:
        are = "1 column is" if len(names) == 1 else f"{len(names)} columns are"
        console.say(f"{are} still to be confirmed: {', '.join(names)}")
    else:
        console.say(f"{file} is reviewed; it can be used for releases")
