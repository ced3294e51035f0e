"""Whose an instance is, by EC2's list."""

from __future__ import annotations

from charterer.domain.ids import InstanceId, OrderToken
from charterer.domain.pool import InstanceState
from charterer.providers.aws.listing import LAG_SECONDS, ListedInstance, gang_tags, recognised
from tests.factory import POOL, T0, at

GANG = [OrderToken("cone"), OrderToken("cthree"), OrderToken("ctwo")]


def together(name: str) -> ListedInstance:
    """An instance of a gang of three that was launched at T0, before it has a tag of its own."""
    running = InstanceState.RUNNING
    return ListedInstance(InstanceId(name), POOL, "p4d", "z1", "", "", running, T0, None, gang_tags(GANG), None)


def test_what_is_left_of_a_gang_is_told_once_the_list_must_show_all_of_it() -> None:
    """One of three never shows. While the list may lag, nobody can tell which of them it is."""
    listed = [together("i-1"), together("i-2")]
    assert recognised(listed, at(LAG_SECONDS - 1)) == []
    told = recognised(listed, at(LAG_SECONDS))
    assert {row.id: row.order for row in told} == {"i-1": "cone", "i-2": "cthree"}
