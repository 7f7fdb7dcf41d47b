"""A figure that can be measured by itself carries the command that measures it, and it alone, again."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict

import pytest
from benchmarks import __main__ as command
from benchmarks import _accuracy, calibrate, discovery, engines, scaling, sculpt, sizes
from benchmarks.peers import again


@pytest.fixture
def results(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    monkeypatch.setenv("MAQUETTE_PEER_PYTHON", "python")
    return tmp_path


@pytest.fixture
def measured(monkeypatch):
    """What would have been measured; nothing is."""
    seen = []

    def note(case, *_options):
        seen.append(case)
        return {"what": "noted"}

    monkeypatch.setattr(_accuracy, "measure", note)
    monkeypatch.setattr(again, "measure", note)
    monkeypatch.setattr(calibrate, "simulate", note)
    monkeypatch.setattr(scaling, "figures", note)
    return seen


def figures_of(name, folder):
    match name:
        case "sculpt":
            return sculpt.cases(folder, names=("adult", "xor"), epsilons=(0.1, 10.0), runs=1)
        case "sizes":
            return sizes.points(folder)
        case "calibrate":
            return calibrate.simulated([3, 17])
        case _:
            return again.measure_all(again.CASES, folder, "python")


STORED = command.RESULTS
MAINS = {"sculpt": sculpt.main, "sizes": sizes.main, "calibrate": calibrate.main, "peers": again.main}


@pytest.mark.parametrize("name", MAINS)
def test_every_figure_of_a_part_names_what_repeats_it(name, results, measured, tmp_path):
    command.append_each(name, figures_of(name, tmp_path))
    first, lines = list(measured), (results / f"{name}.jsonl").read_text().splitlines()
    assert len(first) == len(lines) > 1
    for case, line in zip(first, lines, strict=True):
        stored = json.loads(line)
        assert "command" not in stored["figures"]
        measured.clear()
        MAINS[name](words(stored["command"], tmp_path))
        assert measured == [case]


@pytest.mark.parametrize("name", [*MAINS, "scaling"])
def test_the_stored_figures_name_what_repeats_them(name, results, measured, tmp_path):
    lines = (STORED / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    for line in lines[:: max(1, len(lines) // 10)]:
        stored = json.loads(line)
        measured.clear()
        (MAINS | {"scaling": scaling.main})[name](words(stored["command"], tmp_path))
        (case,) = measured
        told = json.loads(json.dumps(asdict(case)))
        assert {key: stored["figures"].get(key) for key in told} == told


def test_a_point_of_a_scale_too(measured):
    for point in (scaling.Point("rows", rows=500), scaling.Point("records", n=10, mechanism="residual")):
        measured.clear()
        scaling.main(words(scaling.command(point), None))
        assert measured == [point]


@pytest.mark.parametrize(
    ("module", "options"),
    [
        (engines, ["100000", "--only", "adult", "--looks", "read alone", "pairs in memory"]),
        (engines, ["100000", "--only", "adult_raw"]),
        (engines, ["spark", "1000"]),
        (discovery, ["--table", "flights", "--runs", "1"]),
    ],
)
def test_options_of_a_part_are_in_its_command(module, options, results, monkeypatch, tmp_path):
    """A line that was made with fewer looks or runs than the whole benchmark says so."""
    seen = []

    def note(*given, **more):
        seen.append((given, {key: list(value) if value else value for key, value in more.items()}))
        return [{"what": "noted"}]

    monkeypatch.setattr(module, "part" if module is engines else "one_table", note)
    module.main([*options, "--data", str(tmp_path)])
    name = module.__name__.removeprefix("benchmarks.")
    (line,) = (results / f"{name}.jsonl").read_text().splitlines()
    python, dash, package, called, *rest = shlex.split(json.loads(line)["command"])
    assert (python, dash, package, called) == ("python", "-m", "benchmarks", name)
    module.main([str(tmp_path) if word == "DIR" else word for word in rest])
    first, second = seen
    assert first == second


def test_a_part_without_a_command_is_refused(results):
    with pytest.raises(ValueError, match="has to name its command"):
        command.append_each("sculpt", [{"what": "x"}])
    assert not (results / "sculpt.jsonl").exists()


def words(told, folder):
    """The words behind the module's name, with a real folder."""
    python, dash, module, *rest = shlex.split(told)
    assert (python, dash) == ("python", "-m")
    assert module.startswith("benchmarks.")
    return [str(folder) if word == "DIR" else word for word in rest]
