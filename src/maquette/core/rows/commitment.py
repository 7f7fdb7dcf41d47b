"""The commitment to a table: a keyed digest of its coded records, by which a ledger knows its table again.

Scheme 2, for every ledger that is bound now, is a digest of the *multiset* of records. The order of the rows and the
cuts between batches do not matter, because a database returns a join in any order and a file may be sorted anew.

    digest = HMAC(salt, fingerprint, n, sum over records r of F(r))     F(r) in (Z / 2^64)^4

F is four SipHash-2-4 functions (Aumasson and Bernstein 2012) of the packed record, each under a 128-bit key of its own,
HMAC(salt, "... lane i"). The salt is 256 random bits that stay in the ledger.

Collisions: let two tables, chosen without the salt, hold record r in numbers that differ by c, 0 < |c| <= n. Were F a
random function, then given F of all other records each lane of the two sums agrees for at most gcd(c, 2^64) <= n of
2^64 values, so all four agree with probability at most (n / 2^64)^4: below 2^-120 for n up to 2^34. To that come the
advantages against SipHash as a pseudo-random function and against HMAC. Sums and not XOR: by XOR a record that is there
twice would cancel. A record is packed in as many bits per column as its codes need, fine cells among them, so different
records are different messages.

Secrecy: whoever has the digest without the salt has the output of HMAC under an unknown key, so nothing about the
table can be guessed and tested. With the salt any guess can be tested; hence the ledger is kept like the table. The
owner, who has both, could search for a second table with the same sums, which gains nothing that a new ledger does not.

Scheme 1 hashed every column in the order of the rows. A ledger that was bound by it stays bound by it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core import _lazy_numba as numba
from maquette.core.rows.coding import code_type
from maquette.core.universe import Universe

Coded = Mapping[str, NDArray[Any]]
Words = NDArray[np.uint64]

LANES = 4
MULTISET = "v2:"
"""Before a digest of the second scheme; those of the first have no prefix."""


def is_in_order(like: str | None) -> bool:
    """Is this a commitment of the first scheme, which the order of the rows is part of?"""
    return like is not None and not like.startswith(MULTISET)


def lane_keys(salt: bytes) -> Words:
    """The keys of the four lanes. They do not tell the salt."""
    lanes = [
        hmac.digest(salt, f"maquette records, lane {lane}".encode(), "sha256")[:16] for lane in range(LANES)
    ]
    return np.frombuffer(b"".join(lanes), "<u8").reshape(LANES, 2).astype(np.uint64)


def seal(domain: Universe, salt: bytes, sums: Words, n: int) -> str:
    """The second scheme: the same records with the same salt give the same text, in whatever order they came.

    `sums` are those of `add_records` over all of them, under the keys of the lanes.
    """
    sealed = f"maquette table\n{domain.fingerprint}\n{n}\n".encode()
    return MULTISET + hmac.digest(salt, sealed + sums.astype("<u8").tobytes(), "sha256").hex()


def in_order(domain: Universe, batches: Iterable[Coded], salt: bytes) -> str:
    """The first scheme, for ledgers of earlier versions: bound to the order of the rows as well."""
    digests = {name: hmac.new(salt, name.encode(), hashlib.sha256) for name in domain.names}
    for batch in batches:
        for name, digest in digests.items():
            digest.update(batch[name].astype(batch[name].dtype.newbyteorder("<"), copy=False).tobytes())
    seal = hmac.new(salt, domain.fingerprint.encode(), hashlib.sha256)
    for digest in digests.values():
        seal.update(digest.digest())
    return seal.hexdigest()


def pack(domain: Universe, batch: Coded) -> Words:
    """Every record in as few 64-bit words as the declared cells allow, an array (words, rows); one-to-one."""
    packed: list[Words] = []
    free = 0
    for name, size in domain.columns.items():
        codes = batch[name].astype(np.uint64)
        bits = (size - 1).bit_length()
        if bits > free or not packed:
            packed.append(codes)
            free = 64 - bits
        elif bits:
            packed[-1] <<= np.uint64(bits)
            packed[-1] |= codes
            free -= bits
    return np.stack(packed)


def packed_words(domain: Universe) -> int:
    """How many words `pack` needs for a record."""
    return max(word for word, _, _ in _layout(domain)) + 1


def unpack(domain: Universe, words: Words) -> dict[str, NDArray[Any]]:
    """The codes of records that `pack` has packed, each in the smallest type that holds its column."""
    columns: dict[str, NDArray[Any]] = {}
    for (name, size), (word, shift, bits) in zip(domain.columns.items(), _layout(domain), strict=True):
        codes = (words[word] >> np.uint64(shift)) & np.uint64(2**bits - 1)
        columns[name] = codes.astype(code_type(size))
    return columns


def _layout(domain: Universe) -> list[tuple[int, int, int]]:
    """For every column its word, how far it is from the right end of it, and its bits."""
    places: list[tuple[int, int]] = []
    free: list[int] = []
    for size in domain.columns.values():
        bits = (size - 1).bit_length()
        if not free or bits > free[-1]:
            free.append(64)
        free[-1] -= bits
        places.append((len(free) - 1, free[-1]))
    # the first of a word was moved to the left by all that came after it
    return [
        (word, after - free[word], (size - 1).bit_length())
        for size, (word, after) in zip(domain.columns.values(), places, strict=True)
    ]


_INITIAL_A, _INITIAL_B = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
_INITIAL_C, _INITIAL_D = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)
_LAST = np.uint64(0xFF)
_13, _16, _17, _21, _32, _43, _47, _48, _51 = map(np.uint64, (13, 16, 17, 21, 32, 43, 47, 48, 51))


@numba.njit(cache=True, nogil=True, plain=True)
def add_records(words: Any, keys: Any, sums: Any) -> None:
    """Add SipHash-2-4 of every column of `words`, under each key, to that key's sum modulo 2^64."""
    per_record, records = words.shape
    length = np.uint64((8 * per_record) % 256) << np.uint64(56)
    for lane in range(len(keys)):
        total, low, high = sums[lane], keys[lane, 0], keys[lane, 1]
        for row in range(records):
            a, b, c, d = low ^ _INITIAL_A, high ^ _INITIAL_B, low ^ _INITIAL_C, high ^ _INITIAL_D
            for i in range(per_record + 1):
                word = words[i, row] if i < per_record else length
                d ^= word
                for _ in range(2):
                    a, b, c, d = _round(a, b, c, d)
                a ^= word
            c ^= _LAST
            for _ in range(4):
                a, b, c, d = _round(a, b, c, d)
            total += a ^ b ^ c ^ d
        sums[lane] = total


@numba.njit(nogil=True, plain=True, no_cpython_wrapper=True)
def _round(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any, Any, Any]:
    a += b
    c += d
    b = ((b << _13) | (b >> _51)) ^ a
    d = ((d << _16) | (d >> _48)) ^ c
    a = (a << _32) | (a >> _32)
    c += b
    a += d
    b = ((b << _17) | (b >> _47)) ^ c
    d = ((d << _21) | (d >> _43)) ^ a
    c = (c << _32) | (c >> _32)
    return a, b, c, d
