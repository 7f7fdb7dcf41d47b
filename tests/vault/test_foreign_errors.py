"""Errors of other libraries, and of the owner's own objects, may quote a record: nothing of them passes through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import maquette as mq
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import SourceError

SECRET = "98765-secret"
DOMAIN = Domain((Attribute("a", Kind.CATEGORICAL, categories=("1", "2"), nullable=True, overflow=True),))


def fail(*_: object) -> Any:
    raise RuntimeError(f"bad value {SECRET}")


class Failing(Mapping[str, Any]):
    """A table, or a record, whose values cannot be had."""

    def __getitem__(self, name: str) -> Any:
        return fail()

    def get(self, name: str, default: object = None) -> Any:
        return fail()

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


class Column:
    def __iter__(self) -> Any:
        return fail()

    def __len__(self) -> int:
        return 1


class Value:
    __str__ = __eq__ = __ne__ = __float__ = fail  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]
    __hash__ = object.__hash__


TEXTS = pl.DataFrame({"a": ["1", SECRET]}).lazy()
SOURCES = {
    "a lazy cast": lambda: TEXTS.select(pl.col("a").cast(pl.Int64)),
    "a lazy function": lambda: TEXTS.select(pl.col("a").map_elements(fail, return_dtype=pl.String)),
    "a lazy batch": lambda: TEXTS.select(pl.col("a").map_batches(fail, return_dtype=pl.String)),
    "a lazy file": lambda: pl.scan_csv(f"no-such-file-{SECRET}.csv"),
    "a lazy date": lambda: TEXTS.select(pl.col("a").str.to_date("%Y")),
    "a mapping": Failing,
    "a record": lambda: [Failing()],
    "a column": lambda: {"a": Column()},
    "values": lambda: {"a": [Value()]},
    "values of pandas": lambda: pd.DataFrame({"a": pd.Series([Value()], dtype=object)}),
    "an array of values": lambda: {"a": np.array([Value()], dtype=object)},
    "a relation": lambda: duckdb.connect().sql(
        f"SELECT CAST(x AS INTEGER) AS a FROM (VALUES ('{SECRET}')) t(x)"
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("act", ["open", "draft", "fit", "discover"])
@pytest.mark.parametrize("name", SOURCES)
def test_no_error_of_another_library_passes_through(name, act, tmp_path):
    acts = {
        "open": lambda source: mq.open(source, domain=DOMAIN),
        "draft": mq.draft,
        "fit": lambda source: mq.fit_report(source, domain=DOMAIN),
        "discover": lambda source: mq.discover(source, epsilon=1, delta=1e-6, ledger=tmp_path / "l"),
    }
    try:
        acts[act](SOURCES[name]())
    except mq.MaquetteError as error:
        chain: BaseException | None = error
        while chain is not None:
            assert SECRET not in str(chain)
            chain = chain.__cause__ or chain.__context__


def test_a_lazy_frame_that_fails_says_what_to_do():
    with pytest.raises(SourceError, match="collect it yourself"):
        mq.open(SOURCES["a lazy cast"](), domain=DOMAIN)
