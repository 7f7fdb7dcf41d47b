"""Chromium walks the public site: narrow and wide, light and dark, with and without scripts."""

from __future__ import annotations

import pytest

from maquette.web.app import public_site
from maquette.web.explore import Catalog
from support.browser import WIDTHS, chromium, served, tab
from support.made_release import toy_release

pytestmark = pytest.mark.slow

PAGES = (
    "/releases",
    "/r/toy",
    "/r/toy/explore?by=age&by=sex",
    "/r/toy/explore?by=region&figure=share()",
    "/r/toy/sql?q=select sex, count(*) from t group by sex",
    "/r/toy/answer?q=age >= 60",
    "/r/toy/answer?q=height > 3",
    "/nowhere",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = toy_release().save(tmp_path_factory.mktemp("site") / "toy.maquette")
    with served(public_site(Catalog.of([folder]))) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_is_for_everybody(browser, home, width, scheme):
    with tab(browser, home, width=width, scheme=scheme) as walk:
        for path in PAGES:
            walk.go(path)
            walk.check()


def test_the_main_path_needs_no_script_and_no_mouse(browser, home):
    with tab(browser, home, scripts=False) as walk:
        walk.go("/r/toy/answer")
        walk.page.focus("input[name=q]")
        walk.page.keyboard.type("sex = 'Male'")
        walk.enter()
        assert "of the records" in walk.page.inner_text("main")
        walk.go("/r/toy/explore")
        walk.page.focus("details.builder summary")
        walk.page.keyboard.press("Enter")
        walk.page.select_option("select[name=by] >> nth=0", "sex")
        walk.page.select_option("select[name=by] >> nth=1", "region")
        walk.page.focus("form.choices button")
        walk.enter()
        assert walk.page.locator("table.heat td").count() == 2 * 4


def test_the_first_tab_stop_skips_to_the_content(browser, home):
    with tab(browser, home) as walk:
        walk.go("/releases")
        walk.page.keyboard.press("Tab")
        assert walk.page.evaluate("document.activeElement.textContent") == "Skip to the content"
