"""Schemathesis against the running service: what the description says is what happens, and no input is a failure.

`python -m benchmarks.service --fuzz 1000` runs the same with 1,000 examples for each operation.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.web_service import running, write_config

pytestmark = pytest.mark.slow

EXAMPLES = "8"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with running(write_config(tmp_path_factory.mktemp("service"))) as world:
        yield world


@pytest.mark.parametrize("who", ["anna", "stella"])
def test_the_interface_keeps_to_its_description(world, tmp_path, who):
    settings = tmp_path / "schemathesis.toml"
    settings.write_text('[parameters]\n"path.table" = "people"\n')
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "--config-file", str(settings),
        "run", f"{world.home}/api/v1/openapi.json",
        "-H", f"Authorization: Bearer {world.token(who)}",
        "--max-examples", EXAMPLES,
        "--phases", "fuzzing,coverage" if who == "anna" else "fuzzing",
        "--checks", CHECKS,
        "--generation-database", "none",
        "--exclude-operation-id", "follow_job",  # ends with its job
        "--exclude-operation-id", "start_release",  # would start processes
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "Tested:" in done.stdout
