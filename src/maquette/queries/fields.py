"""Fields of a JSON object, checked: each complaint names the object, the field, what was expected and found."""

from __future__ import annotations

from typing import Any, cast

from maquette.errors import WorkloadError


class Fields:
    """A JSON object with exactly the expected fields."""

    def __init__(
        self, where: str, data: object, expected: tuple[str, ...], optional: tuple[str, ...] = ()
    ) -> None:
        if not isinstance(data, dict):
            raise WorkloadError(f"expected an object for {where}, got {_told(data)}")
        self.where = where
        self.data = cast("dict[str, Any]", data)
        missing = [name for name in expected if name not in self.data]
        extra = [name for name in self.data if name not in (*expected, *optional)]
        if missing or extra:
            problem = (
                f"lacks {', '.join(missing)}"
                if missing
                else f"has unknown fields {', '.join(map(str, extra))}"
            )
            raise WorkloadError(f"{where} {problem}; its fields are {', '.join((*expected, *optional))}")

    def text(self, name: str) -> str:
        value = self.data[name]
        if not isinstance(value, str):
            raise self._wrong(name, "a text")
        return value

    def texts(self, name: str) -> list[str]:
        values = self.list(name)
        if not all(isinstance(value, str) for value in values):
            raise self._wrong(name, "a list of texts")
        return cast("list[str]", values)

    def whole(self, name: str) -> int:
        value = self.data[name]
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(name, "a whole number")
        return value

    def number(self, name: str) -> float:
        value = self.data[name]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(name, "a number")
        return value

    def flag(self, name: str) -> bool:
        value = self.data[name]
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def list(self, name: str) -> list[Any]:
        value = self.data[name]
        if not isinstance(value, list):
            raise self._wrong(name, "a list")
        return cast("list[Any]", value)

    def lists(self, name: str) -> list[list[Any]]:
        values = self.list(name)
        if not all(isinstance(value, list) for value in values):
            raise self._wrong(name, "a list of lists")
        return values

    def lists_of_texts(self, name: str) -> list[list[str]]:
        values = self.lists(name)
        if not all(isinstance(value, str) for inner in values for value in inner):
            raise self._wrong(name, "lists of texts")
        return values

    def _wrong(self, name: str, expected: str) -> WorkloadError:
        return WorkloadError(f"expected {expected} as {name} of {self.where}, got {_told(self.data[name])}")


def _told(value: object) -> str:
    told = repr(value)
    return told if len(told) <= 60 else told[:57] + "..."
