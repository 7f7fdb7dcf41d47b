"""For each trusted package its branches and how many of them the tests run through.

make coverage                       # ends with this
python tools/count_branches.py      # the table alone, from the last run
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

from coverage import Coverage

ROOT = Path(__file__).parents[1]


def main() -> None:
    data = Coverage(data_file=str(ROOT / ".coverage"))
    data.load()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "branches.json"
        data.json_report(outfile=str(file))
        files = json.loads(file.read_text("utf-8"))["files"]
    branches: Counter[str] = Counter()
    covered: Counter[str] = Counter()
    for name, facts in files.items():
        place = name.rpartition("maquette/")[2].removesuffix(".py")
        package = place if place.startswith("releasing/") else place.partition("/")[0]
        branches[package] += facts["summary"]["num_branches"]
        covered[package] += facts["summary"]["covered_branches"]
    print("| package | branches | run through |\n|---|---|---|")
    for package, count in branches.items():
        print(f"| `{package}` | {count:,} | {covered[package]:,} ({covered[package] / count:.1%}) |")


if __name__ == "__main__":
    main()
