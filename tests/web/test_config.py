"""The configuration: everything that is wrong is said before anything starts, by its place."""

from __future__ import annotations

import pytest

from maquette.errors import ParameterError
from maquette.web.config import load, parse

GOOD = {
    "tables": {"people": {"source": "a.csv", "domain": "a.json", "epsilon": 1.0}},
    "people": {"anna": {"tables": {"people": {"epsilon": 0.5}}}, "stella": {"role": "steward"}},
}


def changed(**parts):
    return GOOD | parts


def test_defaults_are_careful():
    settings = parse(GOOD, "x")
    assert settings.host == "127.0.0.1"
    assert settings.behind_tls is False
    assert settings.proxy is None
    assert settings.trusted_proxies == []
    assert settings.tables["people"].fit_report is False
    assert settings.people["anna"].role == "analyst"
    assert settings.people["anna"].tables["people"].rate.seconds == 60


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "tables: this setting is missing"),
        (changed(tables={}), "expected at least one"),
        (changed(tabels={}), "tabels: there is no such setting; did you mean 'tables'?"),
        (changed(port=99999), "port"),
        (changed(trusted_proxies=["this machine"]), "trusted_proxies.0: value is not a valid IPv4 or IPv6"),
        (changed(port="high"), "port: expected a valid integer"),
        (
            changed(tables={"people": GOOD["tables"]["people"] | {"sources": "x"}}),
            "tables.people.sources: there is no such setting; did you mean 'source'?",
        ),
        (
            changed(
                tables={"people": GOOD["tables"]["people"] | {"discovery": True, "accounting": "gaussian"}}
            ),
            "discovery: it needs",
        ),
        (changed(tables={"People": GOOD["tables"]["people"]}), "expected a name of a-z"),
        (changed(tables={"../x": GOOD["tables"]["people"]}), "expected a name of a-z"),
        (changed(people={"a b": {}}), "expected a name of a-z"),
        (changed(people={"anna": {"role": "king"}}), "role"),
        (changed(people={"anna": {"tables": {"other": {"epsilon": 1}}}}), "no table of this name"),
        (changed(people={"anna": {"tables": {"people": {"epsilon": 2}}}}), "more than the table's total"),
        (changed(people={"anna": {"tables": {"people": {"epsilon": -1}}}}), "epsilon"),
        (changed(tables={"people": {"source": "a", "domain": "b", "epsilon": 1, "delta": 1}}), "delta"),
        (
            changed(
                people={},
                tables={
                    name: {"source": "a", "domain": "b", "epsilon": 1, "ledger": "one.ledger"}
                    for name in "ab"
                },
            ),
            "a ledger of its own",
        ),
    ],
)
def test_what_is_wrong_is_said(data, words):
    with pytest.raises(ParameterError, match=r"serve\.toml") as problem:
        parse(data, "serve.toml")
    assert words in str(problem.value)


@pytest.mark.parametrize(
    ("content", "words"), [(b"tables = [", "not TOML"), (b"\xff\xfe", "not UTF-8"), (None, "cannot read")]
)
def test_files_that_are_no_configuration(tmp_path, content, words):
    path = tmp_path / "serve.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ParameterError, match=words):
        load(path)


def test_paths_are_relative_to_the_file(tmp_path):
    path = tmp_path / "serve.toml"
    path.write_text('[tables.people]\nsource = "a/b.csv"\ndomain = "d.json"\nepsilon = 1\n')
    config = load(path)
    assert config.ledger("people") == str(tmp_path / "a" / "b.ledger")
    assert config.state == tmp_path / "maquette-state"
