"""`maquette ledger`: making, showing and verifying the account of what was spent."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli import console, options
from maquette.cli.options import AsJson, DomainFile
from maquette.errors import LedgerError
from maquette.requests import Privacy, Protected

if TYPE_CHECKING:
    from maquette.accounting.ledger import Ledger


app = typer.Typer(help="Make, show, verify and settle ledgers.", no_args_is_help=True, rich_markup_mode=None)

WAYS = {"gaussian": "Gaussian differential privacy", "zcdp": "zero-concentrated differential privacy"}

Location = Annotated[str, typer.Argument(metavar="LEDGER", help="A path, or a postgresql URL.")]


@dataclass(frozen=True, kw_only=True)
class LedgerParts:
    """How a ledger counts a delta, and what of it is kept for pure events."""

    pure: Annotated[
        float,
        typer.Option(
            help="The part of epsilon that is kept for pure events, with a delta; they cost it what they are."
        ),
    ] = 0.0
    accounting: Annotated[
        str,
        typer.Option(
            help="How a delta is counted: gaussian (least noise for releases) or zcdp (least for sessions)."
        ),
    ] = "gaussian"


@app.command("create")
@options.grouped
def create(
    *,
    location: Location,
    domain: DomainFile,
    privacy: Privacy,
    parts: LedgerParts,
    protected: Protected,
    name: Annotated[
        str | None, typer.Option(help="Name of the ledger. Default: the name of the file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a ledger with a fixed total for one table.

    \b
    Example:
      maquette ledger create people.ledger --domain people.domain.json --epsilon 3 --delta 1e-9
    """
    from maquette.accounting.ledger import Ledger
    from maquette.core import _check
    from maquette.core.budget import Budget
    from maquette.core.neighbours import neighbours
    from maquette.domain import Domain
    from maquette.releasing.payment import warn_if_weak

    warn_if_weak(privacy.budget_in())
    _check.one_of(("gaussian", "zcdp"), accounting=parts.accounting)
    with Ledger.create(
        location,
        budget=Budget(
            privacy.epsilon,
            privacy.delta,
            "gaussian" if parts.accounting == "gaussian" else "zcdp",
            pure_epsilon=parts.pure,
        ),
        relation=privacy.between,
        domain_fingerprint=Domain.load(domain).fingerprint,
        name=name or (Path(location).stem if "://" not in location else "ledger"),
        persons=protected.persons,
    ) as book:
        if as_json:
            console.say_json(_summary(book))
        else:
            console.say(
                f"made ledger '{book.name}' with {book.budget}, {neighbours(book.relation, book.persons)}"
            )
            console.say("Protect it like the table: it holds every answer that was paid for.")


@app.command("show")
def show(
    location: Location,
    questions: Annotated[
        bool, typer.Option("--questions", help="Also list questions that cost nothing, answered in sessions.")
    ] = False,
    details: Annotated[
        bool, typer.Option("--details", help="Also show amounts as they are counted, and the kinds of noise.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Write spending over time as .svg, .png, .html or .json.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what was spent on what, and what is left.

    \b
    Example:
      maquette ledger show people.ledger --plot people.svg
    """
    from maquette.accounting.ledger import Ledger

    with Ledger.open(location) as book:
        book.check_releases()
        book.warn_without_receipt()
        payments = _payments(book)
        if plot is not None:
            from maquette.cli import ledger_views

            ledger_views.draw(book, plot)
        if as_json:
            console.say_json(_summary(book) | {"payments": payments})
        else:
            _show(book, payments, questions=questions, details=details)
            if plot is not None:
                console.say(f"wrote {plot}")


@app.command("verify")
def verify(
    location: Location,
    receipt: Annotated[
        list[str] | None,
        typer.Option(
            "--receipt", metavar="SEQ:HEAD", help="A receipt that the ledger must contain; may be repeated."
        ),
    ] = None,
    release: Annotated[
        Path | None, typer.Option("--release", help="A release folder that must be unchanged.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read the whole chain again and check every entry. Exit code 2 if anything was changed, cut or rolled back.

    With --release it also checks everything that a release folder states, by the digest that the ledger holds. A folder
    of a version that stored no digest is "not bound": its payments are in the ledger, its statements are not checked.

    \b
    Example:
      maquette ledger verify people.ledger --release people.maquette
    """
    from maquette.accounting.ledger import Ledger, Receipt

    receipts = [Receipt.parse(text) for text in receipt or []]
    bound_release = None
    with Ledger.open(location) as book:
        head = book.verify()
        if release is not None:
            from maquette.results.loading import load

            bound_release = load(release, ledger=book)
            receipts += bound_release.receipts
        for one in receipts:
            if not book.holds(one):
                book.verify(one)  # refuses, and says what is in its place
        folders = len(book.releases_nearby())  # which verify has looked for
        nearby_receipt = book.last_receipt
        book.warn_without_receipt()
    if as_json:
        bound = {} if bound_release is None else {"release": bound_release.checked}
        document = {
            "whole": True,
            "sequence": head.sequence,
            "head": head.head,
            "receipts": len(receipts),
            "kept": None if nearby_receipt is None else str(nearby_receipt),
            "folders": folders,
        }
        console.say_json(document | bound)
    else:
        listed_receipts = f", {len(receipts)} receipts found" if receipts else ""
        console.say(f"the ledger is complete and unchanged: {head.sequence} entries{listed_receipts}")
        if bound_release is not None:
            console.say(f"the release {release}: {bound_release.facts()['ledger']}")
            console.say(
                f"  its report is not covered by this check; to write it again: maquette report {release}"
            )
        beside = (
            "no receipt is kept beside it"
            if nearby_receipt is None
            else f"the receipt beside it, of entry {nearby_receipt.sequence}, agrees"
        )
        console.say(f"  {beside}" + (f", and those of {folders} release folders" if folders else ""))
        console.say(f"receipt {head}")


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What another program guarantees, in one of three ways."""

    epsilon: Annotated[float | None, typer.Option(help="A pure epsilon, or one with --delta.")] = None
    delta: Annotated[
        float | None, typer.Option(help="The delta of that epsilon, in a ledger that counts rho.")
    ] = None
    rho: Annotated[float | None, typer.Option(help="Zero-concentrated, in a ledger that counts rho.")] = None
    mu: Annotated[float | None, typer.Option(help="Gaussian differential privacy, with any delta.")] = None


@app.command("charge")
@options.grouped
def charge(
    *,
    location: Location,
    reason: Annotated[
        str, typer.Option(help="What it was spent on, and by which program: it stays in the ledger.")
    ],
    loss: Loss,
    key: Annotated[
        str | None, typer.Option(help="A name of this payment: the same one again is charged once.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Charge what another program spent on the same table, so that one ledger adds up everything.

    The guarantee must hold between the neighbours of this ledger: its relation, and its persons if it protects persons.

    \b
    Example:
      maquette ledger charge people.ledger --epsilon 0.2 --reason "OpenDP: mean of age"
    """
    from maquette.accounting.charges import shares_in_words
    from maquette.accounting.elsewhere import spent
    from maquette.accounting.ledger import Ledger
    from maquette.results import wording

    event = spent(**asdict(loss))
    with Ledger.open(location) as book:
        entry = book.charge(event, reason=reason, key=key)
        paid = {"key": entry.key, "sequence": entry.seq, **wording.amounts_of(entry.cost, book)}
        if as_json:
            console.say_json(_summary(book) | {"charged": paid})
            return
        console.say(f"charged {shares_in_words(entry.cost, book.budget.whole)} of the ledger: {reason}")
        console.say(f"  {standing_of(book)}")
        console.say(f"  key {entry.key}")


@app.command("export")
def export(location: Location) -> None:
    """Show every payment as events of dp_accounting, in JSON: what the ledger counts, in its own order.

    Amounts that are reserved and not yet spent are not among them.

    \b
    Example:
      maquette ledger export people.ledger
    """
    from maquette.accounting.elsewhere import payments
    from maquette.accounting.ledger import Ledger

    with Ledger.open(location) as book:
        console.say_json(_summary(book) | {"payments": payments(book)})


@app.command("recover")
def recover(location: Location, as_json: AsJson = False) -> None:
    """Continue with a ledger that has lost entries, if there is no newer copy. What was lost is charged in full.

    The receipt beside a ledger says what was spent when the lost entries were written. All of that is charged, whatever
    is left of it in this copy, and every open release and session is ended. It is never less than what was paid.

    \b
    Example:
      maquette ledger recover people.ledger
    """
    from maquette.accounting.charges import shares_in_words
    from maquette.accounting.ledger import Ledger
    from maquette.results import wording

    done = Ledger.recover(location)
    with Ledger.open(location) as book:
        summary, whole = _summary(book), book.budget.whole
        standing, charged = standing_of(book), wording.amounts_of(done.charged, book)["amount"]
    share = shares_in_words(done.charged, whole)
    if as_json:
        lost = {
            "lost": str(done.lost),
            "agreed": str(done.agreed),
            "charged": charged,
            "exceeded": done.exceeded,
        }
        console.say_json(summary | lost)
        return
    console.say(
        f"lost: entries after {done.agreed.sequence}, up to {done.lost.sequence}; {share} of the ledger is charged"
    )
    if done.exceeded:
        console.say(
            "  this copy was also used on its own: together, both copies may have spent more than the total"
        )
    console.say(f"  {standing}")


@app.command("settle")
def settle(
    location: Location,
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY]...", help="Releases or sessions to end. Default: list the open ones."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="End every open one.")] = False,
    as_json: AsJson = False,
) -> None:
    """End releases and sessions, and return what they reserved but did not spend.

    What a step was charged stays charged, answered or not. This cannot be undone: a run that still uses such a key is
    refused at its next step, and the same request then needs another key.

    \b
    Example:
      maquette ledger settle people.ledger
      maquette ledger settle people.ledger release-1c63851c363ff10a59d0
    """
    from maquette.accounting.charges import shares_in_words
    from maquette.accounting.ledger import Ledger
    from maquette.results import wording

    with Ledger.open(location) as book:
        ending = _to_settle(book, keys or [], every=every)
        reservations = {one.entry.key: one.left for one in book.open_envelopes()}
        amounts = {key: wording.amounts_of(left, book)["amount"] for key, left in reservations.items()}
        before, whole = book.balance().left, book.budget.whole
        for key in ending:
            book.settle(key)
        given_back = book.balance().left - before
        summary = _summary(book) | {
            "settled": ending,
            "given_back": wording.amounts_of(given_back, book)["amount"],
        }
        back, standing = shares_in_words(given_back, whole), standing_of(book)
    if as_json:
        console.say_json(
            summary | {"open": {key: amount for key, amount in amounts.items() if key not in ending}}
        )
    elif ending:
        console.say(f"ended {', '.join(ending)}: {back} of the ledger was returned")
        console.say(f"  {standing}")
    elif reservations:
        console.table(
            ("reserved", "key"),
            [(shares_in_words(left, whole), key) for key, left in reservations.items()],
            right=(0,),
        )
        console.say("name the keys to end, or --all; a run that still uses one is refused at its next step")
    else:
        console.say("nothing is reserved: every release and session has ended")


def _to_settle(book: Ledger, keys: list[str], *, every: bool) -> list[str]:
    """The open envelopes to end, inner ones first: what they hold goes back through the outer ones."""
    envelopes = [one.entry for one in book.open_envelopes()]
    open_keys = {entry.key for entry in envelopes}
    for key in keys:
        if key not in open_keys:
            raise LedgerError(
                f"no open release or session '{key}' in ledger '{book.name}'; maquette ledger settle without a key "
                "lists them"
            )
    chosen = open_keys if every else set(keys)
    for entry in envelopes:  # an outer envelope comes before what is inside it
        if entry.parent in chosen:
            chosen.add(entry.key)
    return [entry.key for entry in reversed(envelopes) if entry.key in chosen]


def paid_so_far(location: str) -> str:
    """One line about the state of a ledger, for the end of an interrupted run."""
    from maquette.accounting.ledger import Ledger

    try:
        with Ledger.open(location) as book:
            return standing_of(book)
    except LedgerError:
        return ""


def standing_of(book: Ledger) -> str:
    """Spent, reserved and left in percent, and what the rest can pay for."""
    from maquette.accounting.charges import affordable_epsilon
    from maquette.core.budget import percent_of
    from maquette.results import wording

    balance, said = book.balance(), list[str]()
    for part in balance.parts(book.budget.unit).values():
        amounts = {"spent": part.charged, "reserved": part.reserved, "left": part.left}
        words = ", ".join(f"{percent_of(units, part.total)} {name}" for name, units in amounts.items())
        said.append(f"pure part: {words}" if said else words)
    further = wording.further(affordable_epsilon(book.budget, balance.left), book.budget.delta)
    return f"{'; '.join(said)}; {further}"


def _summary(book: Ledger) -> dict[str, Any]:
    """For scripts; `affordable_epsilon` is the largest of one more release at the ledger's delta, or null."""
    from maquette.results import wording

    return {
        "name": book.name,
        "epsilon": book.budget.epsilon,
        "delta": book.budget.delta,
        **({"pure_epsilon": book.budget.pure_epsilon} if book.budget.pure_epsilon else {}),
        "accounting": None if book.budget.pure else book.budget.accounting,
        "relation": str(book.relation),
        **({} if book.persons is None else {"persons": asdict(book.persons)}),
        **wording.account(book),
    }


def _payments(book: Ledger) -> list[dict[str, Any]]:
    """Every reservation in order; `reserved` is what an open envelope holds that no step was charged."""
    from maquette.results import wording

    reservations = {
        one.entry.key: wording.amounts_of(one.left, book)["amount"] for one in book.open_envelopes()
    }
    settled_keys = {entry.key for entry in book.entries(kind="settle")}
    answered = {entry.key for entry in book.entries(kind="answer")}
    return [
        {
            "sequence": entry.seq,
            "created": entry.created,
            "tag": entry.tag,
            "asked": entry.body.get("ask"),
            "question": entry.body.get("text"),
            "key": entry.key,
            "parent": entry.parent,
            **wording.amounts_of(entry.cost, book),
            "reserved": reservations.get(entry.key, 0.0),
            "state": _state(entry.envelope, entry.key in settled_keys, entry.key in answered),
        }
        for entry in book.entries(kind="reserve")
    ]


def _state(is_envelope: bool, is_settled: bool, is_answered: bool) -> str:
    if is_envelope:
        return "settled" if is_settled else "open"
    return "answered" if is_answered else "paid, not answered"


def _show(book: Ledger, payments: list[dict[str, Any]], *, questions: bool, details: bool) -> None:
    from maquette.core.neighbours import neighbours

    summary = _summary(book)
    total = summary["total"]
    console.say(f"Ledger '{book.name}': {book.budget} in all, {neighbours(book.relation, book.persons)}")
    console.say(f"  {console.bar(summary['spent'] / total, summary['reserved'] / total)}")
    console.say(f"  {standing_of(book)}")
    if details:
        way = "" if summary["unit"] == "epsilon" else f", by {WAYS[book.budget.accounting]}"
        console.say(f"  counted in {summary['unit']}{way}: {_amounts(summary)}")
        if "pure" in summary:
            console.say(f"  the pure part in epsilon: {_amounts(summary['pure'])}")
    if not payments:
        console.say("  nothing was paid yet")
        return
    console.say()
    shown = [p for p in payments if questions or p["asked"] not in _FREE]
    _say_payments(shown, summary, details=details)
    if len(shown) < len(payments):
        console.say(
            f"  and {len(payments) - len(shown):,} questions that cost nothing; --questions lists them"
        )
    console.say()
    if summary["reserved"]:
        console.say("  maquette ledger settle ends open reservations and gives back what they hold")
    console.say(f"  receipt {summary['receipt']}")


def _amounts(part: dict[str, Any]) -> str:
    amounts = ", ".join(f"{part[name]:.6g} {name}" for name in ("spent", "reserved", "left"))
    return f"{amounts} of {part['total']:.6g}"


def _say_payments(payments: list[dict[str, Any]], summary: dict[str, Any], *, details: bool) -> None:
    """One line each, in percent of the ledger; with details also as counted, with the kind of noise."""
    from maquette.core.budget import UNITS, percent_of

    total = round(summary["total"] * UNITS)

    def share(amount: float) -> str:
        return percent_of(round(amount * UNITS), total)

    head = ("entry", "when (UTC)", "paid for", "of the ledger", "state", "key")
    extra = (summary["unit"], "noise")
    rows = [
        (
            str(p["sequence"]),
            p["created"][:19].replace("T", " "),
            ("  " if p["parent"] else "") + _label(p),
            _shares(share(p["amount"]), p, summary),
            f"{p['state']}, holds {share(p['reserved'])}" if p["reserved"] else p["state"],
            p["key"],
            *((f"{p['amount']:.6g}", p["tag"]) if details else ()),
        )
        for p in payments
    ]
    console.table((*head, *(extra if details else ())), rows, right=(0, 3, 6) if details else (0, 3))


def _shares(share: str, payment: dict[str, Any], summary: dict[str, Any]) -> str:
    """Of the ledger, and of its pure part where something was charged to that."""
    from maquette.core.budget import UNITS, percent_of

    if "pure" not in payment:
        return share
    pure = percent_of(round(payment["pure"] * UNITS), round(summary["pure"]["total"] * UNITS))
    return f"{share}, {pure} pure" if payment["amount"] else f"{pure} pure"


_FREE = ("test", "note")


def _label(payment: dict[str, Any]) -> str:
    from maquette.results import wording

    label = wording.payment(payment["asked"], payment["tag"])
    return label if payment["question"] is None else f"{label}: {payment['question'][:60]}"
