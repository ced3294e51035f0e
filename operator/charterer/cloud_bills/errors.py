"""What is wrong with a file of a bill."""

from __future__ import annotations

from pathlib import Path


class UnreadableBill(ValueError):
    """A file that is no bill, or a bill with a value that cannot be used; the message says which and what to do."""

    def __init__(self, path: Path, what: str, *, line: int | None = None, column: str = "", value: str = "") -> None:
        place = "" if line is None else f" line {line}"
        of = f" column {column}" if column else ""
        shown = f" {_shortened(value)!r}" if column else ""
        super().__init__(f"{path}{place}{of}{shown}: {what}")
        self.line, self.column, self.value = line, column, value


def _shortened(value: str, most: int = 60) -> str:
    return value if len(value) <= most else f"{value[:most]}…"
