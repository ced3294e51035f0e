"""The table of ``charterer plan`` that says what a new job of each class is given."""

from __future__ import annotations

import re

import pytest

from tests.unit.cli.plan.test_plan import busy
from tests.unit.cli.worlds import charterer_over
from tests.worlds import NAMESPACE


def test_jobs_without_a_profile_have_rows_that_name_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    world = busy()
    world.job("two", gpus=(8, 8, 8))
    assert f"research  {NAMESPACE}/two  " in charterer_over(world, monkeypatch)("plan").stdout
    world.job("three", gpus=(8, 8, 16))
    world.job("four", gpus=(8, 8, 8))
    told = charterer_over(world, monkeypatch)("plan").stdout
    assert f"  {NAMESPACE}/three  " in told
    assert re.search(f"  {NAMESPACE}/(two|four) and 1 like it  ", told)
