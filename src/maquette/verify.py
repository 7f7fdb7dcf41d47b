"""A second opinion on a ledger and a release, written from the page of formats (docs/formats.md) alone.

    python -m maquette.verify LEDGER [RELEASE]

It shares no code with what writes them and imports only the standard library: copy it anywhere, read it in one sitting.
Exit code 0: everything fits. 1: the first thing that does not, in a sentence. 2: wrong usage, or a file that cannot be
read. Nothing is written beside the ledger. Arithmetic is exact, or rounded to the side that refuses.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sqlite3
import stat
import sys
import tempfile
import zlib
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from math import ceil, floor, gcd
from pathlib import Path
from typing import Any

U, S, MOST_SLACK = 10**12, 10**24, 2**62
LARGEST_FILE, LARGEST_JSON, LARGEST_ROW, LARGEST_ANSWERS = 2**36, 2**28, 2**24, 2**34  # bytes
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534")
UNITS = {"epsilon": None, "rho": "zcdp", "mu^2/2": "gaussian"}
EVENTS = {"laplace", "cube", "pure", "sparse", "selection", "gaussian", "smoothed", "composed"}
FREE, DECLARED = {"test", "note", "binding", "fixed"}, {"(domain)", "(raw table)"}
BEFORE = "before the domain"
CLAIMS = ("name", "unit", "epsilon", "delta", "relation", "domain_fingerprint", "format", "pure_epsilon")
FILES = {"answers.parquet", "codes.parquet", "domain.json", "model.npz", "rows.parquet", "workload.json"}
FILES |= {"release.sha256"}
RATIONAL = re.compile(r"(0|-?[1-9][0-9]{0,999})(?:/([1-9][0-9]{0,999}))?")
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}\+00:00")
SCHEMAS = [  # of the SQL of a new ledger, in one part and in two
    "e81bf02643ef7041f53333cbff254b474be6a030b6638857fab433210896c819",
    "ee6731ccc82465e9e09eb96e7a728cda772916cae39604c0f5a04cdab2e1f3cf",
]
AMOUNTS, TOTALS = ("units", "slack", "pure"), ("total", "slack_total", "pure_total")
SPENT = ("spent", "slack_spent", "pure_spent")  # the last of each in a ledger of two parts alone


class Misfit(Exception):
    """What does not fit, in a sentence."""


def hold(fits: object, sentence: str, *values: object) -> None:
    """Go on if it fits; values of a file are shown cut and escaped, for they may be anything."""
    if not fits:
        raise Misfit(sentence.format(*(ascii(value)[:80] for value in values)))


def regular(path: Path, largest: int = LARGEST_FILE) -> Path:
    """A file that is one (no pipe, no device) and not too large."""
    if not stat.S_ISREG(path.stat().st_mode) or path.stat().st_size > largest:
        raise OSError(f"{path} is no file, or has more than {largest} bytes")
    return path


def parse(text: str | bytes) -> dict[str, Any]:
    """A JSON object without NaN and infinity."""
    try:
        here = json.loads(text, parse_constant=rational)
    except (ValueError, RecursionError):
        raise Misfit("a text is not JSON") from None
    hold(isinstance(here, dict), "a JSON text is no object")
    return here


def sha256(data: bytes | str) -> str:
    return hashlib.sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()


def is_digest(text: object, ahead: str = "") -> bool:
    return isinstance(text, str) and re.fullmatch(ahead + "[0-9a-f]{64}", text) is not None


def connect(path: Path, folder: str) -> sqlite3.Connection:
    """A private copy with its log, for reading only: SQLite makes files beside a ledger that it reads."""
    ends = ["", *(end for end in ("-wal", "-journal") if Path(f"{path}{end}").exists())]
    before = [regular(Path(f"{path}{end}")).stat() for end in ends]
    for end in ends:
        shutil.copyfile(f"{path}{end}", f"{folder}/copy{end}")
    for end, old in zip(ends, before, strict=True):
        if (new := Path(f"{path}{end}").stat()).st_mtime_ns != old.st_mtime_ns or new.st_size != old.st_size:
            raise OSError(f"{path} changed while it was read; try again when nobody writes to it")
    return sqlite3.connect(Path(folder, "copy").as_uri() + "?mode=ro", uri=True, isolation_level=None)


def rational(value: object) -> Fraction:
    here = RATIONAL.fullmatch(value) if isinstance(value, str) else None
    if here is None or here[2] == "1" or gcd(int(here[1]), int(here[2] or 1)) != 1:
        raise Misfit(f"{ascii(value)[:80]} is no rational in lowest terms")
    return Fraction(int(here[1]), int(here[2] or 1))


def decimal(text: str) -> Fraction:
    """The exact value of the shortest decimal text of a number."""
    hold(re.fullmatch("[0-9.e+-]{1,30}", text) and repr(float(text)) == text, "{} is no decimal", text)
    return Fraction(Decimal(text))


def price(event: Any, unit: str) -> tuple[int, int]:
    """Units and slack that an event costs, as the table of the page has it. Dividing by 0 is a misfit."""

    def number(name: str) -> Fraction:
        value = rational(event.get(name))
        hold(value >= 0, "the {} of an event is {}", name, event[name])
        return value

    def pure(epsilon: Fraction, part: Fraction = Fraction(1)) -> tuple[int, int]:
        factor = part * Fraction(355, 226) if unit == "mu^2/2" else part
        return ceil((epsilon if unit == "epsilon" else epsilon**2 / 2 * factor) * U), 0

    hold(isinstance(event, dict), "an event is no object")
    match event.get("tag"):
        case "laplace":
            return pure(number("l1") / number("scale"))
        case "cube" | "pure":
            return pure(number("epsilon"))
        case "sparse":
            norm, cap = number("sensitivity"), number("cap")
            hold(cap.denominator == 1 and cap > 0, "the cap of an epoch is {}", event["cap"])
            return pure(norm / number("threshold_scale") + 2 * cap * norm / number("test_scale"))
        case "selection" if event.get("method") in ("exponential", "permute-and-flip"):
            return pure(number("epsilon"), Fraction(1, 4 if event["method"] == "exponential" else 1))
        case "gaussian" if unit == "rho":
            rho, variation = number("l2_squared") / (2 * number("sigma_squared")), number("total_variation")
            return ceil(rho * U), ceil(variation * S)
        case "smoothed" if unit != "epsilon":
            norm, sigma, mu = number("l2_squared"), number("sigma_squared"), number("mu_squared")
            ripple, ratio, rho = number("ripple"), number("log_ratio"), norm / (2 * sigma)
            hold(mu >= 2 * rho and ratio >= ripple, "a smoothed event claims less than its noise costs")
            return (ceil(rho * U), ceil(ripple * S)) if unit == "rho" else (ceil(mu / 2 * U), ceil(ratio * S))
        case "composed" if isinstance(event.get("events"), list):
            parts = [price(part, unit) for part in event["events"]]
            return sum(units for units, _ in parts), sum(slack for _, slack in parts)
        case tag:
            raise Misfit(f"an event of the tag {ascii(tag)[:80]} has no price in {unit}")


def prices(event: Any, unit: str, parts: int) -> list[list[int]]:
    """What an event may be charged: in the unit of the ledger, and where it is pure to a pure part."""

    def is_pure(one: Any) -> bool:
        return one["tag"] not in ("gaussian", "smoothed") and all(map(is_pure, one.get("events", ())))

    pure = [[0, 0, price(event, "epsilon")[0]]] if parts == 2 and is_pure(event) else []
    return [[*price(event, unit), 0], *pure]


def most_rho(epsilon: Decimal, log_delta: Decimal) -> Decimal:
    """The largest rho that an order 1 + t allows; every order is valid, so a poor search can only refuse."""

    def at(log_t: Decimal) -> Decimal:
        t = log_t.exp()
        return (epsilon + (log_delta + (1 + t) * (1 + t).ln() - t * log_t) / t) / (1 + t)

    best, step = Decimal(0), Decimal(16)
    for _ in range(170):  # one top, and flat: 10^-20 in the order is 10^-40 in rho
        best, step = max((best - step, best, best + step), key=at), step * 3 / 4
    return at(best)


def mills(x: Decimal) -> Decimal:
    """Phi(-x) / phi(x) to 80 digits: a continued fraction far out, else a series of terms of one sign."""
    whole, tail = (2 * PI).sqrt() * (x * x / 2).exp() if x < 4 else Decimal(0), abs(x)
    if abs(x) >= 4:
        for k in range(800, 0, -1):
            tail = abs(x) + k / tail
        return 1 / tail if x > 0 else whole - 1 / tail
    term, total, k = x, x, 1
    while abs(term) > Decimal("1e-110"):
        k += 2
        term *= x * x / k
        total += term
    return whole / 2 - total


def covered(
    unit: str, epsilon: Fraction, delta: Fraction, total: int, slack: int, *, before: bool, pure: Any = 0
) -> bool:
    """Whether (epsilon, delta) without the pure part covers a total in units and in slack, as the page has it."""
    whole, epsilon = epsilon, epsilon - pure
    if epsilon == 0:
        return (total, slack) == (0, 0)

    def real(value: Fraction) -> Decimal:
        return Decimal(value.numerator) / value.denominator

    if unit == "epsilon":
        return (total, slack) == (floor(epsilon * U), 0)
    with localcontext(Context(prec=100, Emax=MAX_EMAX, Emin=MIN_EMIN)):
        safe = 1 - Decimal("1e-35")
        if unit == "rho":
            share = Fraction(1, 2 if before else 1024)
            rho = most_rho(real(epsilon), real(delta * (1 - share)).ln())
            room = 0 if whole > 10**5 else real(delta * share * S) / (1 + real(whole).exp())
            fits = total == 0 or real(Fraction(total, U)) <= rho * safe
            return fits and 0 <= slack <= min(room * safe, MOST_SLACK)
        part = floor(min(epsilon / 2**15, Fraction(MOST_SLACK, S)) * S)
        mu = real(Fraction(2 * max(total, 1), U)).sqrt()
        x = real(epsilon - Fraction(2 * part, S)) / mu - mu / 2
        loss = (-x * x / 2).exp() / (2 * PI).sqrt() * (mills(x) - mills(x + mu))
        return slack == part and (total == 0 or loss <= real(delta * (1 - Fraction(part, S))) * safe)


@dataclass(slots=True)
class Reservation:
    seq: int = 0
    tag: str = ""
    parent: str | None = None
    amount: list[int] = field(default_factory=list[int])  # units, slack and pure units
    left: list[int] = field(default_factory=list[int])  # of an envelope; empty: it is none
    answer: str = ""
    closed: bool = False
    epoch: bool = False


class Ledger:
    """What the entries lead to. The account is the envelope around all others."""

    def __init__(self, account: dict[str, Any]) -> None:
        self.account, self.domain, self.commitment = account, account["domain_fingerprint"], None
        self.chain, self.bound = list[tuple[str, str, str, list[int]]](), dict[str, int]()
        self.total = [account.get(name, 0) for name in TOTALS]
        self.reserved: dict[str | None, Reservation] = {None: Reservation(left=self.total)}

    def add(self, row: dict[str, Any], body: dict[str, Any]) -> None:
        """One more entry, by the rules of its kind."""
        kind, key, answer = row["kind"], row["key"], row["payload_sha256"]
        amount = [row.get(name, 0) for name in AMOUNTS]
        hold((kind == "open") == (row["seq"] == 1), "it is of the kind {}", kind)
        hold(
            is_digest(answer) if kind == "answer" else answer is None, "its answer has the digest {}", answer
        )
        here, early = self.reserved.get(key, Reservation()), kind in ("open", "bind")
        if kind != "reserve":
            rest = (row["parent"], row["tag"], row["request"], row["envelope"], key == "", body == {})
            fits = kind in ("open", "settle") or amount == [0, 0, 0]
            hold(fits and rest == (None, "", "", 0, early, not early), "its kind has other fields")
        if kind == "open":
            claim = {name: self.account[name] for name in CLAIMS if name in self.account}
            claim["salt_sha256"] = sha256(self.account["salt"])
            hold(body == claim and amount == self.total, "it opens another account than the account")
        elif kind == "bind":
            fits = self.commitment is None and is_digest(body["commitment"], "(v2:)?") and len(body) == 1
            hold(fits, "it binds no table, or a second one")
            self.commitment = body["commitment"]
        elif kind == "reserve":
            self.reserve(row, body, amount)
        elif kind == "answer":
            hold(here.seq and not here.left and not here.answer, "nothing waits for the answer {}", key)
            here.answer = answer
        else:
            hold(kind == "settle" and here.left and not here.closed, "{} is no open envelope", key)
            payer, here.closed = self.reserved[here.parent], True
            hold(amount == ([0, 0, 0] if payer.closed else here.left), "it gives back another amount")
            payer.left = [a + b for a, b in zip(payer.left, amount, strict=True)]

    def reserve(self, row: dict[str, Any], body: dict[str, Any], amount: list[int]) -> None:
        key, parent, tag, envelope = str(row["key"]), row["parent"], row["tag"], row["envelope"]
        hold(key and key not in self.reserved and is_digest(row["request"]), "its key or request is not new")
        hold(envelope == (tag not in EVENTS | FREE | {"lost"}), "its tag {} has another form", tag)
        hold(tag not in FREE or amount == [0, 0, 0], "it has the tag {} and an amount", tag)
        if tag in EVENTS:
            parts = 2 if "pure_total" in self.account else 1
            fits = body["tag"] == tag and amount in prices(body, self.account["unit"], parts)
            hold(fits, "it does not charge what its event costs")
        if again := re.fullmatch(r"(.+)/again/([1-9][0-9]{0,8})", key, re.DOTALL):
            first = self.reserved.get(again[1], Reservation())
            fits = tag in EVENTS and (first.tag, first.amount, body["again"]) == (tag, amount, int(again[2]))
            hold(fits and parent is None, "it charges another look again than {}", again[1])
        elif step := re.fullmatch(r"(.*)/[0-9]{4,}", key, re.DOTALL):
            hold(parent == step[1], "it is named a step of {}, which does not pay for it", step[1])
        payer = self.reserved.get(parent, Reservation())
        hold(payer.left and not payer.closed, "{}, which pays for it, is no open envelope", parent)
        payer.left = [a - b for a, b in zip(payer.left, amount, strict=True)]
        hold(min(payer.left) >= 0, "it takes more than is left")
        parts = body["events"] if tag == "composed" else []
        payer.epoch |= "sparse" in [tag, *(part["tag"] for part in parts)]
        hold(tag != "test" or payer.epoch, "it is a test, and no epoch before it was paid")
        if tag == "fixed" or key in DECLARED:
            waits = (tag, parent, self.account["domain_fingerprint"]) == ("fixed", None, BEFORE)
            hold(waits and key in DECLARED, "it declares what the ledger does not wait for")
            self.domain = body["fingerprint"] if key == "(domain)" else self.domain
        if tag == "binding":
            hold(is_digest(body["digest"]), "it binds a release without a digest")
            self.bound[body["release"]] = row["seq"]
        self.reserved[key] = Reservation(row["seq"], tag, parent, amount, amount if envelope else [])

    def entry(self, seq: object, head: object, what: str) -> int:
        """The number of an entry that a receipt names; the chain has to hold it."""
        if type(seq) is not int or not 0 < seq <= len(self.chain):
            raise Misfit(f"{what} knows entry {ascii(seq)[:20]}, and the ledger ends at {len(self.chain)}")
        hold(self.chain[seq - 1][0] == head, what + " knows another entry {}", seq)
        return seq


def opened(connection: sqlite3.Connection) -> Ledger:
    """The empty ledger, once header, tables, triggers and account are those of one."""
    connection.row_factory = sqlite3.Row
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_ROW)
    for setting in ("trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0", "query_only=ON"):
        connection.execute(f"PRAGMA {setting}")
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    hold(application == 0x6D716C31, "the application id {} is not that of a ledger", application)
    schema = connection.execute("SELECT name, sql FROM sqlite_schema").fetchmany(100)
    here = {name: " ".join((sql or "").split()) for name, sql in schema if name[:11] != "sqlite_stat"}
    schema = sha256(json.dumps(here, sort_keys=True))
    hold(schema in SCHEMAS, "the tables, indexes and triggers are not those of a ledger: {}", " ".join(here))
    (account,) = map(dict[str, Any], connection.execute("SELECT * FROM account LIMIT 2"))
    unit, persons = account["unit"], " " in account["relation"]
    before = account["domain_fingerprint"] == BEFORE
    epsilon, delta = decimal(account["epsilon"]), decimal(account["delta"])
    pure, parts = decimal(account.get("pure_epsilon", "0.0")), 1 + SCHEMAS.index(schema)
    fits = (
        pure == 0
        if parts == 1
        else 0 < pure <= epsilon and delta and account["pure_total"] == floor(pure * U)
    )
    hold(fits, "the account has another pure part than {}", account.get("pure_epsilon"))
    fits = unit in UNITS and epsilon > 0 and 0 <= delta < 1 and (delta == 0) == (unit == "epsilon")
    hold(fits, "the account promises nothing in {}", unit)
    relation = re.fullmatch("(add-remove|replace-one)( .+)?", account["relation"])
    whom = parse(account["relation"].partition(" ")[2]) if persons else {"person": "", "rows": 1}
    fits = whom.keys() == {"person", "rows"} and isinstance(whom["person"], str) and whom["rows"] >= 1
    hold(relation and fits, "the account protects nobody: {}", account["relation"])
    expected = 4 if parts == 2 else 3 if persons or before else 2 if unit == "mu^2/2" else 1
    hold(
        account["id"] == 1 and account["format"] == version == expected,
        "the format or id is not {} or 1",
        expected,
    )
    hold(before or is_digest(account["domain_fingerprint"]), "the account has no domain")
    hold(isinstance(account["salt"], bytes) and len(account["salt"]) == 32, "the salt has not 32 bytes")
    fits = covered(unit, epsilon, delta, account["total"], account["slack_total"], before=before, pure=pure)
    hold(fits, "the account's epsilon and delta do not cover its total of {} units", account["total"])
    return Ledger(account)


def replay(connection: sqlite3.Connection, ledger: Ledger) -> None:
    """The chain, entry by entry; at its end the account has to be what it leads to."""
    head, sums = "0" * 64, [0, 0, 0]
    for values in connection.execute("SELECT * FROM entry ORDER BY seq"):
        row, seq = dict[str, Any](values), len(ledger.chain) + 1
        try:
            hold(row["seq"] == seq and row["prev"] == head, "it does not follow the entry before")
            claim = row.pop("head")
            created, amounts = row.pop("created"), [row.get(name, 0) for name in AMOUNTS]
            last = {"created": created} | ({"pure": row.pop("pure")} if "pure" in row else {})
            listed = json.dumps([*row.values(), *last.values()], separators=(",", ":"))
            head = sha256("maquette-ledger-1\n" + listed)
            hold(claim == head, "its head is not the hash of its fields")
            hold(TIME.fullmatch(created) and datetime.fromisoformat(created), "its time is none")
            hold(all(type(one) is int and one >= 0 for one in amounts), "its amounts are none")
            body = parse(row["body"])
            canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
            hold(canonical == row["body"], "its body is not canonical JSON")
            ledger.add(row | last, body)
        except (Misfit, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise Misfit(f"entry {seq} does not fit: {error}") from None
        sums = [a - b for a, b in zip(ledger.total, ledger.reserved[None].left, strict=True)]
        ledger.chain.append((head, row["kind"], row["key"], sums))
    end = {"seq": len(ledger.chain), "head": head, "commitment": ledger.commitment}
    for name, value in (end | dict(zip(SPENT, sums, strict=True))).items():
        hold(
            ledger.account.get(name, 0) == value,
            "the account's {} is not {}, where the entries lead",
            name,
            value,
        )


def check_answers(connection: sqlite3.Connection, ledger: Ledger) -> int:
    """Every stored answer has the digest of its entry, and every answer is stored; they are read in pieces."""
    missing = {key: here.answer for key, here in ledger.reserved.items() if here.answer}
    count, room = len(missing), LARGEST_ANSWERS
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 2**31 - 1)
    for number, key, kind in connection.execute("SELECT rowid, key, typeof(data) FROM payload"):
        hold(key in missing and kind == "blob", "an answer {} is stored that no entry has", key)
        unpack, digest = zlib.decompressobj(), hashlib.sha256()
        with connection.blobopen("payload", "data", number, readonly=True) as blob:
            while room >= 0 and (piece := unpack.unconsumed_tail or blob.read(2**16)):
                data = unpack.decompress(piece, 2**20)
                digest.update(data)
                room -= len(data) + 2**36 * bool(unpack.unused_data)
        fits = room >= 0 and unpack.eof and digest.hexdigest() == missing.pop(key)
        hold(fits, "the stored answer {} is not the one that its entry has, or too long", key)
    hold(not missing, "the answer {} is not stored", next(iter(missing), None))
    return count


def check_receipt(path: Path, ledger: Ledger) -> str:
    """The receipt beside the ledger: what its newer half knows, the ledger holds."""
    if not path.exists() or path.stat().st_size < 2**13:
        return "no receipt is beside it, so an older copy would not be noticed"
    data, what, halves = regular(path, 2**14).read_bytes(), "the receipt beside the ledger", dict[int, Any]()
    for half in (data[: 2**13], data[2**13 :]):
        first, _, rest = half.partition(b"\n")
        text = rest.removesuffix(b"\n").rstrip(b" ")
        if (
            first == f"maquette-receipt-1 {sha256(text)}".encode()
            and len(half) == 2**13
            and half[-1:] == b"\n"
        ):
            halves[int(parse(text)["end"].partition(":")[0])] = parse(text)
    hold(halves, what + " is damaged in both halves")
    seq, last = max(halves.items(), key=lambda half: half[0])
    for receipt in (f"1:{last['opened']}", last["end"], *last["earlier"]):
        ledger.entry(int(receipt.partition(":")[0]), receipt.partition(":")[2], what)
    fits = [last.get(name, 0) for name in SPENT] == ledger.chain[seq - 1][3]
    hold(
        fits and ("pure_spent" in last) == ("pure_spent" in ledger.account),
        what + " states another sum than the entries",
    )
    return f"the receipt beside it knows entry {seq}"


def check_release(folder: Path, ledger: Ledger) -> str:
    """A folder against its ledger, in the order of the page."""
    release = parse(regular(folder / "release.json", LARGEST_JSON).read_bytes())
    files, claim, account = release.pop("files"), release["account"], ledger.account
    key, fits = release["parameters"]["key"], release["software"]["name"] == "maquette"
    fits = fits and release["format"] in (1, 2) and release["watermark"] is None
    hold(fits, "the release has an unknown format, or is marked as not private")
    there = {name for name in FILES if (folder / name).exists()}
    needed = {"domain.json", "workload.json", *(["answers.parquet"] if release["format"] == 1 else [])}
    hold(needed <= there == files.keys(), "the release names other files than are there: {}", sorted(there))
    for name in sorted(files):
        with regular(folder / name).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        hold(digest == files[name], "the file {} is not the one that the release names", name)
    seal = sha256(sha256(json.dumps(release, sort_keys=True, separators=(",", ":"))) + "\n")
    hold(files.get("release.sha256", seal) == seal, "release.json is not what release.sha256 is the hash of")
    domain = parse(regular(folder / "domain.json", LARGEST_JSON).read_bytes())
    public = {"attributes": domain["attributes"], "na_values": sorted(set(domain.get("na_values", [])))}
    fits = domain.get("constraints") or sha256(json.dumps(public, sort_keys=True)) == ledger.domain
    hold(fits, "the release has another domain than the ledger")
    size = (release["size"] or {}).get("receipt")
    for receipt in [*release["receipts"], *([size] if size else [])]:
        seq = ledger.entry(receipt["sequence"], receipt["head"], "the release")
        hold(ledger.chain[seq - 1][1] == "answer", "the release is made of entry {}, which is no answer", seq)
    ledger.entry(1, claim["opened"], "the release")
    parts = [(account["unit"], ledger.total[0] / U), ("epsilon", ledger.total[2] / U)]
    fits = claim["name"] == account["name"] and (claim["unit"], claim["total"]) in parts
    hold(fits, "the release states another account than the ledger's")
    persons, budget = release.get("persons"), release["budget"]
    whom = f" {json.dumps({'person': persons['column'], 'rows': persons['rows']})}" if persons else ""
    hold(release["relation"] + whom == account["relation"], "the release protects others than the ledger")
    fits = not budget["delta"] or budget.get("accounting", "zcdp") == UNITS[account["unit"]]
    hold(fits and ledger.reserved[key].left, "the release was counted or paid otherwise than in the ledger")
    payments = [payment for payment in release["spending"] if payment.get("sequence") is not None]
    for payment in payments:
        here = ledger.reserved[ledger.chain[payment["sequence"] - 1][2]]
        amount, unit = here.amount[0], account["unit"]
        amount, unit = (here.amount[2], "epsilon") if here.amount[2] else (amount, unit)
        paid = (here.seq, here.tag, amount / U, unit, here.parent)
        fits = paid == (payment["sequence"], payment["tag"], payment["amount"], payment["unit"], key)
        hold(fits, "the release states another payment than entry {}", payment["sequence"])
    hold(key in ledger.bound, "no entry binds the release {}", key)
    return f"{len(files)} files, {len(release['receipts'])} receipts, {len(payments)} payments"


def verdict(words: list[str]) -> tuple[int, str]:
    """Exit code and what to say about a ledger and, where it is named, a release."""
    if not 1 <= len(words) <= 2 or words[0].startswith("-"):
        return 2, "usage: python -m maquette.verify LEDGER [RELEASE]"
    try:
        path = Path(words[0])
        with tempfile.TemporaryDirectory() as folder, closing(connect(path, folder)) as connection:
            ledger = opened(connection)
            replay(connection, ledger)
            answers = check_answers(connection, ledger)
        beside = check_receipt(Path(f"{path}.receipt"), ledger)
        spent = f"{ledger.account['spent'] / U} of {ledger.account['total'] / U} {ledger.account['unit']}"
        if ledger.total[2]:
            spent += f" and {ledger.account['pure_spent'] / U} of {ledger.total[2] / U} pure epsilon"
        said = f"The ledger fits: {len(ledger.chain)} entries, {answers} answers, {spent} charged; {beside}."
        for folder in words[1:]:
            said += f"\nThe release fits: {check_release(Path(folder), ledger)}."
    except (OSError, sqlite3.Error) as error:
        return 2, f"Cannot be read: {error}."
    except Misfit as misfit:
        return 1, f"Does not fit: {misfit}."
    except Exception as error:  # whatever a hostile file brings about: never a traceback, never exit code 0
        return 1, f"Does not fit: no version writes such a form ({type(error).__name__})."
    return 0, said


if __name__ == "__main__":
    code, text = verdict(sys.argv[1:])
    (sys.stderr if code else sys.stdout).write(text + "\n")
    raise SystemExit(code)
