"""The rights that the documented policy gives are those that the calls need."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import botocore.session
import pytest

import charterer.providers.aws
from charterer.providers.aws.permissions import RIGHTS, Call, For, policy

ROOM = Path(charterer.providers.aws.__file__).parent
PAGE = Path(__file__).parents[4] / "docs/clouds/aws.md"
BY_THE_SDK = {Call.ASSUME_ROLE}


def test_every_call_is_used_and_has_its_rights() -> None:
    used = {
        node.attr
        for path in ROOM.rglob("*.py")
        if path.stem != "permissions"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Call"
    }
    assert {Call[name] for name in used} | BY_THE_SDK == set(Call) == set(RIGHTS)


def test_a_call_is_sent_by_its_name_only() -> None:
    """Nothing but ``Sdk`` has a client, so that no call can be made that is not in the table."""
    clients = [path.name for path in ROOM.rglob("*.py") if re.search(r"create_client|import boto3", path.read_text())]
    assert clients == ["calls.py"]


def test_every_call_exists_and_changes_nothing_unless_it_is_a_mutation() -> None:
    session = botocore.session.get_session()
    for call in Call:
        session.get_service_model(call.service).operation_model(call.operation)
        reads = call.operation.startswith(("Describe", "Get", "Receive", "Assume"))
        assert call.mutation is not reads, call


@pytest.mark.parametrize("kinds", [(For.ALL, For.FLEET), (For.ALL, For.GROUP), tuple(For)])
def test_a_policy_has_each_action_that_its_pools_need_and_no_other(kinds: tuple[For, ...]) -> None:
    statements = json.loads(policy(kinds))["Statement"]
    given = {action for statement in statements for action in statement["Action"]}
    needed = {right.action for kind, rights in RIGHTS.values() for right in rights if kind in kinds}
    assert given == needed
    assert not any("*" in action for action in given)


def test_machines_are_ended_only_with_the_tag_of_the_cluster() -> None:
    ending = [s for s in json.loads(policy(tuple(For)))["Statement"] if "ec2:TerminateInstances" in s["Action"]]
    assert [s["Condition"] for s in ending] == [{"StringEquals": {"aws:ResourceTag/charterer.dev:cluster": "CLUSTER"}}]


@pytest.mark.parametrize("kinds", [(For.ALL, For.FLEET, For.SPOT, For.QUEUE), (For.ALL, For.GROUP)])
def test_the_page_shows_the_policy_that_the_calls_need(kinds: tuple[For, ...]) -> None:
    shown = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.S)]
    assert json.loads(policy(kinds)) in shown
