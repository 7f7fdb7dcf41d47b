"""Backups of a service, and old ones that are put back."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest

from maquette.accounting.ledger import Ledger
from maquette.errors import LedgerError, ParameterError
from maquette.web import config as configs
from maquette.web.holder import Holder
from maquette.web.ledger import backup
from support.web_service import write_config

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_backup_is_whole_and_an_old_one_is_refused_then_recovered(tmp_path):
    """A11: the ledger of yesterday, with its receipt, under a witness that was kept elsewhere."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    path = write_config(tmp_path / "service", table=f'witness = "{place / "people.end"}"')
    config = configs.load(path)
    holder = Holder(config, "people")
    holder.call("buy_size", {"who": "anna", "role": "analyst"})
    copies = backup(config, tmp_path / "backup")
    assert any("verified" in one.detail for one in copies)
    copy = tmp_path / "backup" / "domains" / "people.domain.json"
    assert copy.read_bytes() == config.domain("people").read_bytes()
    spent_then = Ledger.open(tmp_path / "backup" / "people.ledger").balance().charged_units
    holder.call("ask", {"who": "anna", "role": "analyst", "query": "age < 30"})
    spent = holder.call("ledger", {})["spent"]
    holder.close()
    assert spent * 1e12 > spent_then

    ledger = Path(config.ledger("people"))
    for old in ledger.parent.glob("people.ledger*"):
        old.unlink()
    for name in ("people.ledger", "people.ledger.receipt"):
        shutil.copy2(tmp_path / "backup" / name, ledger.parent / name)
    with pytest.raises(LedgerError, match="old copy"):
        Holder(config, "people")

    shutil.copy2(place / "people.end.receipt", ledger.parent / "people.ledger.receipt")
    with pytest.raises(LedgerError):
        Ledger.open(ledger)
    Ledger.recover(ledger)
    (place / "people.end").unlink()
    again = Holder(config, "people")
    assert again.call("ledger", {})["spent"] >= spent
    again.close()


def test_a_backup_goes_into_a_folder_of_its_own(tmp_path):
    path = write_config(tmp_path / "service")
    with pytest.raises(ParameterError, match="not empty"):
        backup(configs.load(path), tmp_path)


def test_the_files_for_deployment_name_commands_that_are_there():
    container = (ROOT / "deploy" / "Containerfile").read_text()
    assert '"maquette", "serve", "/data/serve.toml"' in container
    assert "--behind-tls" in container
    unit = (ROOT / "deploy" / "maquette.service").read_text()
    assert "maquette serve /etc/maquette/serve.toml" in unit
    worker = (ROOT / "deploy" / "maquette-worker@.service").read_text()
    assert "-m maquette.web.worker" in worker
    assert "PrivateNetwork=yes" in worker


def test_the_configurations_on_the_pages_are_right():
    pages = [(ROOT / "docs" / name).read_text() for name in ("service.md", "institution.md")]
    blocks = [text.split("```")[0] for page in pages for text in page.split("```toml\n")[1:]]
    whole = configs.parse(tomllib.loads(blocks[0]), "docs/service.md")
    assert whole.people["anna"].tables["people"].steps_per_minute == 120
    assert configs.parse(tomllib.loads(blocks[0]) | tomllib.loads(blocks[1]), "docs").proxy is not None
