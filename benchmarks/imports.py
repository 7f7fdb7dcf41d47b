"""How long `import maquette` and the quick commands take beside `import pandas`, and what an installation weighs."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

ROUNDS = 9
STATEMENTS = {
    "nothing": "pass",
    "maquette": "import maquette",
    "everything": "import maquette\nfor name in maquette.__all__: getattr(maquette, name)",
    "pandas": "import pandas",
    "numpy": "import numpy",
}
COMMANDS = {
    "answer": ("answer", "people.maquette", "age >= 60 and sex = 'female'"),
    "ledger_show": ("ledger", "show", "people.ledger"),
    "plan": ("plan", "--domain", "people.domain.json", "--marginals", "2", "--n", "20000", "--epsilon", "1"),
}


def run(data: Path | None) -> list[dict[str, Any]]:
    """Medians over fresh interpreters, taken in turn so that a busy moment hits all of them."""
    del data
    return [_times(), _commands(), _sizes()]


def _times() -> dict[str, Any]:
    taken: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(ROUNDS):
        for name, statement in STATEMENTS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", statement], check=True)
            taken[name].append(time.perf_counter() - start)
    seconds = {name: round(statistics.median(values), 4) for name, values in taken.items()}
    return {
        "what": "seconds of a fresh interpreter that imports one module, median",
        "rounds": ROUNDS,
        "bare_interpreter": seconds["nothing"],
        "maquette": seconds["maquette"],
        "maquette_with_every_public_name": seconds["everything"],
        "peer_pandas": seconds["pandas"],
        "peer_numpy": seconds["numpy"],
        "goal": "maquette below 0.5",
    }


def _commands() -> dict[str, Any]:
    """CPU seconds of the commands that only read what there is, on the demo's release."""
    programs = {name: [sys.executable, "-m", "maquette.cli", *words] for name, words in COMMANDS.items()}
    programs["peer_pandas"] = [sys.executable, "-c", "import pandas"]
    taken: dict[str, list[float]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as folder:
        place, environment = Path(folder), _with_bytecode(folder)
        _cpu([sys.executable, "-m", "maquette.cli", "demo"], place, environment)
        for _ in range(ROUNDS):
            for name, program in programs.items():
                taken[name].append(_cpu(program, place / "demo-output", environment))
    return {
        "what": "CPU seconds of whole commands, median; libraries compiled to bytecode beforehand, as pip does",
        "rounds": ROUNDS,
        **{name: round(statistics.median(values), 2) for name, values in taken.items()},
        "goal": "answer, ledger show and plan below 1",
    }


def _with_bytecode(folder: str) -> dict[str, str]:
    """The environment of a user: compiled modules are kept, whatever this machine says."""
    rest = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return rest | {"PYTHONPYCACHEPREFIX": str(Path(folder) / "bytecode")}


def _cpu(program: list[str], place: Path, environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(program, cwd=place, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _sizes() -> dict[str, Any]:
    own = _package_size(Path(__file__).parents[1] / "src" / "maquette")
    needed = sorted(_closure("maquette-dp"))
    sizes = {name: _distribution_size(name) for name in needed}
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:8]
    return {
        "what": "installed size in megabytes, compiled caches not counted",
        "maquette": round(own / 1e6, 2),
        "with_dependencies": round((own + sum(sizes.values())) / 1e6, 1),
        "dependencies": len(needed),
        "largest": {name: round(size / 1e6, 1) for name, size in largest},
    }


def _package_size(folder: Path) -> int:
    kept = {".py", ".typed", ".j2", ".css"}
    return sum(
        file.stat().st_size for file in folder.rglob("*") if file.suffix in kept or file.name == "py.typed"
    )


def _distribution_size(name: str) -> int:
    files = metadata.files(name) or []
    paths = (Path(str(file.locate())) for file in files if not str(file).endswith(".pyc"))
    return sum(path.stat().st_size for path in paths if path.is_file())


def _closure(name: str) -> set[str]:
    """Every installed distribution that a plain installation pulls in."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for requirement in metadata.requires(waiting.pop()) or []:
            needed = _applies(requirement)
            if needed is not None and needed not in found:
                found.add(needed)
                waiting.append(needed)
    return found


def _applies(requirement: str) -> str | None:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    parsed = Requirement(requirement)
    if parsed.marker is not None and not parsed.marker.evaluate({"extra": ""}):
        return None
    try:
        metadata.distribution(parsed.name)
    except metadata.PackageNotFoundError:
        return None
    return canonicalize_name(parsed.name)
