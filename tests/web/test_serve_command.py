"""`maquette serve` by itself: what it is given is checked before anything starts, and Ctrl-C is how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from maquette.cli.app import app
from support.made_release import toy_release
from support.web_service import write_config


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return toy_release().save(tmp_path_factory.mktemp("site") / "toy.maquette", report=False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--port", "99999"], "port: expected less than or equal to 65535, got 99999"),
        (["--port", "65536"], "port: expected less"),
        (["--port", "-1"], "port: expected greater than or equal to 0, got -1"),
        (["--trusted-proxy", "this machine"], "trusted_proxies.0: value is not a valid IPv4"),
        (["--host", "0.0.0.0"], "can be reached from other machines"),
    ],
)
@pytest.mark.parametrize("what", ["releases", "tables"])
def test_an_option_that_cannot_be_is_refused_before_anything_starts(
    folder, tmp_path, monkeypatch, what, options, words
):
    """What a configuration may not say, the command line may not say either."""
    from maquette.web import server, service

    for module, name in ((server, "run"), (service.Service, "start")):
        monkeypatch.setattr(module, name, lambda *a, **k: pytest.fail("it was started"))
    place = folder if what == "releases" else write_config(tmp_path)
    done = CliRunner().invoke(app, ["serve", str(place), *options])
    assert done.exit_code == 2
    assert words in done.stderr


def test_what_the_command_line_says_comes_before_the_configuration(tmp_path):
    from maquette.web import config as configs

    config = configs.load(write_config(tmp_path, text='hosts = ["a.example"]\nport = 9\n' + TEXT))
    options = {"port": 0, "hosts": ["b.example"], "trusted_proxies": ["127.0.0.1"]}
    settings = config.listening(options).settings
    assert (settings.port, settings.hosts, settings.host) == (0, ["a.example", "b.example"], "127.0.0.1")
    assert config.listening(options).proxies == ["127.0.0.1"]
    assert config.listening({}) == config


TEXT = """\
[tables.people]
source = "people.csv"
domain = "people.domain.json"
epsilon = 4.0
"""


def start(place: Path) -> Any:
    command = [sys.executable, "-m", "maquette.cli", "serve", str(place), "--port", "0"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["releases", "tables"])
def test_ctrl_c_ends_it_without_a_word(folder, tmp_path, what):
    """A site of releases has no ledger that a message could speak of, and a service has cut nothing short."""
    server = start(folder if what == "releases" else write_config(tmp_path))
    try:
        assert "Ctrl-C ends it" in server.stdout.readline()
        time.sleep(0.2)
        os.kill(server.pid, signal.SIGINT)
        _, said = server.communicate(timeout=60)
    finally:
        server.kill()
    assert (server.returncode, said) == (0, "")
