"""Debian's Chromium, driven by Playwright: both widths, both colour schemes, axe, a watch on requests."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn

WIDTHS = (400, 1280)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


@contextmanager
def served(app: Any, *, protocol: Any = "h11") -> Iterator[str]:
    """The application on a free port of this machine, in a thread of this process."""
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, lifespan="off", log_level="error", ws="none", http=protocol
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        threading.Event().wait(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


@dataclass
class Walk:
    """One tab that notes what a page must not do."""

    page: Any
    home: str
    strangers: list[str] = field(default_factory=list)
    """Requests to other places than the service."""
    complaints: list[str] = field(default_factory=list)
    """Errors in the console of the browser: scripts, policies, missing files."""
    dialogs: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.on("request", self._request)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._dialog)

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.home, "data:", "blob:")):
            self.strangers.append(request.url)

    def _console(self, message: Any) -> None:
        if message.type == "error" and "status of 4" not in message.text:
            self.complaints.append(message.text)

    def _dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def go(self, path: str) -> None:
        self.page.goto(self.home + path, wait_until="load")

    def enter(self) -> None:
        """Press Enter where the focus is, and wait for the page that follows."""
        with self.page.expect_navigation():
            self.page.keyboard.press("Enter")

    def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        return self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")

    def findings(self) -> list[str]:
        """What axe finds: serious and critical alone would hide moderate ones, so all of them."""
        from axe_playwright_python.sync_playwright import Axe

        result = Axe().run(self.page).response
        return [f"{one['id']}: {one['nodes'][0]['html'][:150]}" for one in result["violations"]]

    def check(self) -> None:
        """Everything that has to hold on every page."""
        assert self.findings() == []
        assert self.overflow() <= 0
        seen = (self.strangers, self.complaints, self.dialogs)
        assert seen == ([], [], []), seen


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    assert program is not None, "these tests drive Chromium: `make system` installs it (apt install chromium)"
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def tab(
    browser: Any, home: str, *, width: int = 1280, scheme: str = "light", scripts: bool = True
) -> Iterator[Walk]:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts
    )
    try:
        walk = Walk(context.new_page(), home)
        walk.watch()
        yield walk
    finally:
        context.close()
