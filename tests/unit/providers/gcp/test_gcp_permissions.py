"""The rights that the documented roles give are those that the calls need."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

import charterer.providers.gcp
from charterer.providers.gcp.permissions import RIGHTS, Call, For, rights, role
from tests.clouds.gcp.methods import METHODS, permissions
from tests.clouds.gcp.protocol import routes

ROOM = Path(charterer.providers.gcp.__file__).parent
PAGE = Path(__file__).parents[4] / "docs/clouds/google.md"
EVERY_KIND = [
    (For.ALL, For.GROUP),
    (For.ALL, For.GROUP, For.FLEX),
    (For.ALL, For.TEMPLATE),
    (For.ALL, For.TEMPLATE, For.RESERVATION),
    tuple(For),
]


def test_every_call_is_used_and_has_its_rights() -> None:
    used = {
        node.attr
        for path in ROOM.rglob("*.py")
        if path.stem != "permissions"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Call"
    }
    assert {Call[name] for name in used} == set(Call) == set(RIGHTS)


def test_a_call_is_sent_by_its_name_only() -> None:
    """Nothing but ``Sdk`` has a client, so that no call can be made that is not in the table."""
    assert [path.name for path in ROOM.rglob("*.py") if "compute_v1" in path.read_text()] == ["calls.py"]


def test_every_call_exists_and_changes_nothing_unless_it_is_a_mutation() -> None:
    verbs = {route.name: route.verb for route in routes()}
    assert {call.full_name for call in Call} <= verbs.keys()
    reads = {call for call in Call if verbs[call.full_name] == "GET" or call.method.startswith("list")}
    assert [call for call in Call if call.mutation is (call in reads)] == []


def test_a_call_needs_at_least_what_the_server_asks_for() -> None:
    """The server's list is made from the same pages by other hands."""
    for call in Call:
        if call.full_name in METHODS:
            assert set(permissions(call.full_name)) <= set(RIGHTS[call][1]), call


@pytest.mark.parametrize("kinds", EVERY_KIND)
def test_a_role_has_each_right_that_its_pools_need_and_no_other(kinds: tuple[For, ...]) -> None:
    given = yaml.safe_load(role(kinds))["includedPermissions"]
    assert given == rights(kinds) == sorted({right for kind, all in RIGHTS.values() if kind in kinds for right in all})
    assert not any("*" in right or "setIamPolicy" in right for right in given)


@pytest.mark.parametrize("kinds", [EVERY_KIND[1], EVERY_KIND[3]])
def test_the_page_shows_the_role_that_the_calls_need(kinds: tuple[For, ...]) -> None:
    shown = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)]
    assert yaml.safe_load(role(kinds)) in shown
