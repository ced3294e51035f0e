"""JSON primitives, read back strictly: every error names the path of the field that is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]
"""What JSON can say."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A JSON object being read; errors name the path of the field."""

    path: str
    plain: Plain | Mapping[str, Plain]

    def _get(self, field: str) -> Plain:
        if not isinstance(self.plain, Mapping) or field not in self.plain:
            raise ValueError(f"{self.path}{field}: missing; write what to_plain gives")
        return self.plain[field]

    def _wrong(self, field: str, wanted: str) -> ValueError:
        return ValueError(f"{self.path}{field}: {self._get(field)!r} is no {wanted}")

    def text(self, field: str) -> str:
        value = self._get(field)
        if not isinstance(value, str):
            raise self._wrong(field, "string")
        return value

    def whole(self, field: str) -> int:
        value = self._get(field)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(field, "whole number")
        return value

    def inner(self, field: str) -> Reader:
        return Reader(f"{self.path}{field}.", self._get(field))

    def numbers(self, field: str, count: int) -> list[list[float]]:
        """A list of rows of ``count`` numbers each."""
        rows = self._get(field)
        if not isinstance(rows, list):
            raise self._wrong(field, "list")
        for row in rows:
            if not isinstance(row, list) or len(row) != count:
                raise self._wrong(field, f"list of rows of {count} numbers")
            if any(not isinstance(value, int | float) or isinstance(value, bool) for value in row):
                raise self._wrong(field, f"list of rows of {count} numbers")
        return [[float(value) for value in row] for row in rows]  # type: ignore[union-attr, arg-type]

    def wholes(self) -> dict[str, int]:
        """All fields, each a whole number."""
        if not isinstance(self.plain, Mapping):
            raise ValueError(f"{self.path[:-1]}: {self.plain!r} is no object; write what to_plain gives")
        return {field: self.whole(field) for field in self.plain}

    def items(self, field: str) -> list[Reader]:
        value = self._get(field)
        if not isinstance(value, list):
            raise self._wrong(field, "list")
        return [Reader(f"{self.path}{field}[{at}].", one) for at, one in enumerate(value)]
