"""The rights that the documented roles give are those that the calls need."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.containerservice import ContainerServiceClient

import charterer.providers.azure
from charterer.providers.azure.permissions import RIGHTS, At, Call, For, actions, missing, role
from tests.clouds.azure.credential import Credential
from tests.clouds.azure.operations import OPERATIONS

ROOM = Path(charterer.providers.azure.__file__).parent
PAGE = Path(__file__).parents[4] / "docs/clouds/azure.md"
ROLES = [
    ((For.ALL, For.SET, For.FLEXIBLE), At.GROUP),
    ((For.ALL, For.SET, For.RESERVED), At.SUBSCRIPTION),
    ((For.ALL, For.AKS), At.GROUP),
    ((For.AKS,), At.NODES),
    ((For.ALL, For.AKS, For.RESERVED), At.SUBSCRIPTION),
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
    of_the_sdk = re.compile(r"from azure|import azure|ManagementClient|ServiceClient")
    assert [path.name for path in ROOM.rglob("*.py") if of_the_sdk.search(path.read_text())] == ["calls.py"]


def test_every_call_exists_and_changes_something_if_it_begins_an_operation() -> None:
    clients = {
        "compute": ComputeManagementClient(Credential(), "s"),
        "containers": ContainerServiceClient(Credential(), "s"),
    }
    for call in (call for call in Call if call.group):
        assert callable(getattr(getattr(clients[call.client], call.group), call.method))
        assert call.mutation is call.method.startswith("begin_")


def test_the_server_asks_for_the_same_rights() -> None:
    for call in (call for call in Call if call.group):
        needed = OPERATIONS[call.full_name.replace(".", "_")].action
        assert needed in {right.action for right in RIGHTS[call]}, call


@pytest.mark.parametrize("at", list(At))
def test_a_role_has_no_right_that_no_call_needs(at: At) -> None:
    given = json.loads(role(For, at))["Actions"]
    needed = {right.action for rights in RIGHTS.values() for right in rights if right.at is at}
    assert sorted(needed) == given == list(actions(For, at))
    assert not any("*" in action for action in given)


@pytest.mark.parametrize(
    ("granted", "lacking"),
    [
        ([{"actions": ["*"], "notActions": []}], []),
        ([{"actions": ["*/read"], "notActions": []}], ["a/write"]),
        ([{"actions": ["*"], "notActions": ["A/*"]}], ["a/read", "a/write"]),
        ([{"actions": ["*"], "notActions": ["a/*"]}, {"actions": ["A/READ"]}], ["a/write"]),
        ([], ["a/read", "a/write"]),
    ],
)
def test_a_right_is_granted_by_any_role_that_does_not_take_it_back(
    granted: list[dict[str, list[str]]], lacking: list[str]
) -> None:
    assert missing(["a/read", "a/write"], granted) == lacking


@pytest.mark.parametrize(("kinds", "at"), ROLES)
def test_the_page_shows_the_roles_that_the_calls_need(kinds: tuple[For, ...], at: At) -> None:
    shown = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.S)]
    assert json.loads(role(kinds, at)) in shown
