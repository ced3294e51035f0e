"""Filters and pages, as all lists of Compute Engine have them.

The filter language is the one that the SDK describes at each list request: AIP-160 comparisons (there OR binds more
tightly than AND), or regular expressions with ``eq`` and ``ne``; not both in one filter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from tests.clouds.gcp.protocol import Fault, Message, invalid

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'[^']*')|(?P<sign>\(|\)|!=|<=|>=|=|<|>|:)|(?P<word>[^\s()=!<>:"']+))"""
)
_SIGNS = ("=", "!=", "<", "<=", ">", ">=", ":")
Row = dict[str, Any]
Test = Callable[[Row], bool]


def as_json(message: Message) -> Row:
    """A message as JSON."""
    text = type(message).to_json(message, use_integers_for_enums=False, always_print_fields_with_no_presence=False)
    found: Row = json.loads(text)
    return found


class _Filter:
    """Parses one filter; the kind of message says which fields exist."""

    def __init__(self, text: str, kind: Any) -> None:
        self.text, self.kind, self.at = text, kind, 0
        self.tokens: list[tuple[str, str]] = []
        position = 0
        while text[position:].strip():
            found = _TOKEN.match(text, position)
            if found is None:
                raise self.wrong()
            self.tokens.append((found.lastgroup or "", found.group(found.lastgroup or 0)))
            position = found.end()

    def wrong(self) -> Fault:
        return invalid("filter", self.text, "Invalid list filter expression.")

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self) -> tuple[str, str]:
        if self.at >= len(self.tokens):
            raise self.wrong()
        self.at += 1
        return self.tokens[self.at - 1]

    def whole(self) -> Test:
        """The test that the filter is."""
        test = self.all_of()
        if self.at < len(self.tokens):
            raise self.wrong()
        return test

    def all_of(self) -> Test:
        tests = [self.any_of()]
        while self.peek() not in ("", ")"):
            if self.peek() == "AND":
                self.take()
            tests.append(self.any_of())
        return lambda row: all(test(row) for test in tests)

    def any_of(self) -> Test:
        tests = [self.one()]
        while self.peek() == "OR":
            self.take()
            tests.append(self.one())
        return lambda row: any(test(row) for test in tests)

    def one(self) -> Test:
        if self.peek() == "NOT":
            self.take()
            test = self.one()
            return lambda row: not test(row)
        kind, word = self.take()
        if word == "(" and kind == "sign":
            test = self.all_of()
            if self.take() != ("sign", ")"):
                raise self.wrong()
            return test
        if kind != "word":
            raise self.wrong()
        path = word.split(".")
        self.check(path)
        sign = self.take()[1]
        value_kind, value = self.take()
        if value_kind == "text":
            value = value[1:-1]
        elif value_kind != "word":
            raise self.wrong()
        if sign in ("eq", "ne"):
            if any(kind == "sign" and each not in "()" for kind, each in self.tokens):
                raise self.wrong()
            return lambda row: (re.fullmatch(value, _text(_at(row, path))) is not None) == (sign == "eq")
        if sign not in _SIGNS:
            raise self.wrong()
        return lambda row: _compare(_at(row, path), sign, value)

    def check(self, path: list[str]) -> None:
        """Refuse a field that the kind of message does not have."""
        descriptor = self.kind.pb(self.kind()).DESCRIPTOR
        for step in path:
            fields = {f.json_name: f for f in descriptor.fields} if descriptor is not None else {}
            if step not in fields:
                raise self.wrong()
            descriptor = fields[step].message_type
            if descriptor is not None and descriptor.GetOptions().map_entry:
                return


def _at(row: Any, path: Sequence[str]) -> Any:
    for step in path:
        row = row.get(step) if isinstance(row, dict) else None
    return row


def _text(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _compare(value: Any, sign: str, wanted: str) -> bool:
    if sign == ":":
        return value is not None if wanted == "*" else wanted in _text(value)
    if sign in ("=", "!="):
        return fnmatchcase(_text(value), wanted) == (sign == "=")
    try:
        left, right = _order(_text(value)), _order(wanted)
        return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[sign])
    except (TypeError, ValueError):
        return False


def _order(text: str) -> Any:
    return float(text) if re.fullmatch(r"-?[\d.]+", text) else datetime.fromisoformat(text)


def chosen(rows: Sequence[Message], filter: str, kind: Any) -> list[Message]:
    """The rows that a filter lets through."""
    if not filter:
        return list(rows)
    test = _Filter(filter, kind).whole()
    return [row for row in rows if test(as_json(row))]


def page(rows: Sequence[Message], request: Message, size: int) -> tuple[list[Message], str]:
    """The rows of this page, and the token of the next one."""
    if request.order_by == "creationTimestamp desc":
        rows = list(reversed(rows))
    token = request.page_token
    if token and not re.fullmatch(r"after-\d+", token):
        raise invalid("pageToken", token, "The page token is not valid.")
    size, begin = min(size, request.max_results or size), int(token.removeprefix("after-") or 0)
    more = f"after-{begin + size}" if begin + size < len(rows) else ""
    return list(rows[begin : begin + size]), more


def listed(rows: Sequence[Message], request: Message, kind: Any, size: int) -> tuple[list[Message], str]:
    """What a list request gets: filtered, then the page."""
    return page(chosen(rows, request.filter, kind), request, size)
