"""Every answer that a test of a command gets as JSON is held against the command's published schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from charterer.tools.commands.shared.answers import schema_of


def closed(schema: Any) -> Any:
    """The schema, where an object with named keys has no others; a sum of costs has those that were asked for, too."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(each) for key, each in schema.items()}
    if "properties" in found and found.get("title") != "PrintedCostSum":
        found["additionalProperties"] = False
    return found


@cache
def _validator(command: str) -> Draft202012Validator:
    Draft202012Validator.check_schema(schema_of(command))
    return Draft202012Validator(closed(schema_of(command)))


def hold_against_schema(command: str, answer: object) -> None:
    """Fail where the answer lacks a key, has one that the schema does not name, or a value of another type."""
    error = best_match(_validator(command).iter_errors(answer))
    assert error is None, f"charterer {command} -o json: {error.json_path}: {error.message[:300]}"


def asks_for_json(arguments: Sequence[str]) -> bool:
    return any(pair in (("-o", "json"), ("--output", "json")) for pair in pairwise(arguments))


@pytest.fixture(autouse=True)
def schemas_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    invoke = CliRunner.invoke

    def invoked(self: CliRunner, cli: Any, args: Sequence[str] | str | None = None, *rest: Any, **more: Any) -> Result:
        result = invoke(self, cli, args, *rest, **more)
        if args and not isinstance(args, str) and asks_for_json(args) and result.stdout:
            hold_against_schema(args[0], json.loads(result.stdout))
        return result

    monkeypatch.setattr(CliRunner, "invoke", invoked)
