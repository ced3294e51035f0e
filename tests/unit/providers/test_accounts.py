"""Pools of one account share its provider, however its endpoint is written."""

from __future__ import annotations

from charterer.domain.pool import FakeGroup
from charterer.providers.accounts import Accounts
from tests import factory as make
from tests.unit.providers.slow_cloud import SlowCloud


def test_ways_of_writing_one_endpoint_are_one_account() -> None:
    accounts = Accounts({}, adapter=lambda pool, environ: SlowCloud())
    first, second = make.pool(), make.pool(cloud=FakeGroup("HTTP://Cloud:80/", "other"))
    assert accounts.account_of(first) is accounts.account_of(second)
