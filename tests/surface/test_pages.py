"""Every Python and shell block of the documents runs, from the top of its page to the end, on a made-up table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from maquette import demo
from support.pages import ROOT, Block, blocks_of, commands, pages, run
from support.tools import tool

ROWS = 10_000
"""Records of the made-up table: enough for every page, and quick."""

NOT_RUN = 22
"""Blocks that no test runs, each with its reason in the page. One more is a decision, so there is a limit here."""

BLOCKS = {
    str(page.relative_to(ROOT)): list(blocks_of(page.read_text("utf-8"), page.name)) for page in pages()
}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """The made-up table and its domain."""
    table, domain = demo.write(tmp_path_factory.mktemp("people"), rows=ROWS)
    return table.read_bytes(), domain.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("page", [name for name, blocks in BLOCKS.items() if blocks])
def test_the_blocks_of_a_page_run(
    page: str, people: tuple[bytes, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_bytes(people[0])
    (tmp_path / "people.domain.json").write_bytes(people[1])
    (tmp_path / "questions.txt").write_text("age < 20\nsex = 'female'\n")
    names: dict[str, object] = {"__name__": "__page__"}
    for block in BLOCKS[page]:
        if block.not_run is None:
            run(block, names, tmp_path)


def test_readers_have_few_words_before_them():
    count_words = tool("count_words")
    assert sum(count_words.counts().values()) <= count_words.LIMIT == 45_000


def test_words_of_programs_are_not_counted():
    text = "two words\n<!-- sizes: written by tools/x.py -->\nthree\n<!-- end of sizes -->\n<!-- a note -->\n"
    assert tool("count_words").words(text) == 2


def test_blocks_that_no_test_runs_are_few_and_say_why():
    left_out = [block for blocks in BLOCKS.values() for block in blocks if block.not_run is not None]
    assert len(left_out) <= NOT_RUN
    assert all(len(block.not_run.split()) >= 3 for block in left_out if block.not_run)


def test_pages_show_code_in_blocks_that_can_run():
    """An indented or unnamed block with a command or an import in it would escape the tests."""
    escaped = []
    for page in pages():
        text = page.read_text("utf-8")
        fenced = re.sub(r"^```(?:python|sh|json)\n.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
        shown = re.sub(r"<!--.*?-->", "", fenced, flags=re.DOTALL)
        lines = re.findall(
            r"^(?:    |```\n)((?:maquette|make|pip|python -m) \S.*|(?:import|from) \w.*)$",
            shown,
            re.MULTILINE,
        )
        escaped += [f"{page.name}: {line}" for line in lines]
    assert escaped == []


def test_a_block_that_fails_is_noticed(tmp_path):
    with pytest.raises(ZeroDivisionError):
        run(Block("page", 1, "python", "1 / 0"), {}, tmp_path)
    with pytest.raises(AssertionError, match="page:7: maquette answer nowhere"):
        run(Block("page", 7, "sh", "maquette answer nowhere 'TRUE'"), {}, tmp_path)
    with pytest.raises(AssertionError, match="only maquette is run"):
        run(Block("page", 1, "sh", "rm -r folder"), {}, tmp_path)


def test_a_page_is_read_in_order():
    page = (
        "text\n<!-- run before:\nx = 1\n-->\n```python\ny = x\n```\n<!-- not run: needs a server -->\n"
        "```sh\nmaquette \\\n    version   # says it\n```\n```json\n{}\n```\n"
    )
    before, shown, left_out = blocks_of(page, "page")
    assert (before.text, before.line) == ("x = 1\n", 2)
    assert (shown.text, shown.not_run) == ("y = x\n", None)
    assert (left_out.language, left_out.not_run) == ("sh", "needs a server")
    assert list(commands(left_out.text)) == [["maquette", "version"]]
