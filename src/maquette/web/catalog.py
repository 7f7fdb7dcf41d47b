"""Published releases: folders by a short name, each read once and checked against its ledger where one is at hand."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maquette.errors import ReleaseError
from maquette.results.folder import MANIFEST, load
from maquette.web import explore

if TYPE_CHECKING:
    from maquette.results.release import Release

MAX_VIEWS, MAX_VIEW_ROWS = 256, 5_000
"""Tables of releases that are remembered, and rows of the largest of them."""


class Catalog:
    """Release folders by name. A folder is read when it is first looked at; a damaged one is refused by itself."""

    def __init__(
        self, folders: Mapping[str, Path], *, check: Callable[[Path], str | None] | None = None
    ) -> None:
        """`check` holds a folder against a ledger that this process cannot open, and says what came of it."""
        self._check = check
        self._folders = dict(folders)
        self._releases: dict[str, Release] = {}
        self._views: OrderedDict[tuple[Any, ...], explore.View] = OrderedDict()
        self._mutex = threading.Lock()

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Catalog:
        """Release folders, or folders that hold some; every one is read, so that what is damaged is said at once."""
        folders: dict[str, Path] = {}
        for path in paths:
            for folder in _folders_in(path):
                folders[free_name(short_name(folder.stem), folders)] = folder
        catalog = cls(folders)
        for name in folders:
            catalog.release(name)
        return catalog

    def names(self) -> list[str]:
        return sorted(self._folders)

    def __contains__(self, name: object) -> bool:
        return name in self._folders

    def add(self, name: str, folder: Path) -> None:
        """One more release, that was just made."""
        with self._mutex:
            self._folders[name] = folder
            self._releases.pop(name, None)
            self._views.clear()

    def folder(self, name: str) -> Path:
        try:
            return self._folders[name]
        except KeyError:
            raise ReleaseError(f"there is no release called '{name}'") from None

    def release(self, name: str) -> Release:
        folder = self.folder(name)
        with self._mutex:
            if name not in self._releases:
                release = load(folder)
                checked = None if self._check is None else self._check(folder)
                self._releases[name] = release if checked is None else replace(release, checked=checked)
            return self._releases[name]

    def view(self, name: str, by: Sequence[str], *, figure: str = "", where: str = "") -> explore.View:
        """One table of a release. A release does not change, so that what was made once is shown again."""
        release = self.release(name)
        key = (name, id(release), tuple(by), figure, where)
        with self._mutex:
            if key in self._views:
                self._views.move_to_end(key)
                return self._views[key]
        view = explore.view(release, by, figure=figure, where=where)
        if len(view.table) <= MAX_VIEW_ROWS:
            with self._mutex:
                self._views[key] = view
                while len(self._views) > MAX_VIEWS:
                    self._views.popitem(last=False)
        return view


def short_name(text: str) -> str:
    """A name that stands in an address as it is."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or "release"


def free_name(name: str, names: Iterable[str]) -> str:
    """The name, or with a number behind it where it is in use."""
    others, number, free = set(names), 2, name
    while free in others:
        free, number = f"{name}-{number}", number + 1
    return free


def _folders_in(path: Path) -> list[Path]:
    if (path / MANIFEST).is_file():
        return [path]
    inside = sorted(folder.parent for folder in path.glob(f"*/{MANIFEST}")) if path.is_dir() else []
    if not inside:
        raise ReleaseError(
            f"{path} is no release folder and holds none; make one with maquette release ... -o NAME.maquette"
        )
    return inside
