"""The table of ``charterer plan`` that says what a new job of each class is given."""

from __future__ import annotations

import pytest

from tests.unit.cli.plan.test_plan import busy
from tests.unit.cli.worlds import charterer_over


def test_jobs_without_a_profile_have_rows_that_say_how_they_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    world = busy()
    world.job("two", gpus=(8, 8, 8))
    assert "research  (no profile)  " in charterer_over(world, monkeypatch)("plan").stdout
    world.job("three", gpus=(8, 8, 16))
    told = charterer_over(world, monkeypatch)("plan").stdout
    assert "(no profile, 8 GPUs)" in told
    assert "(no profile, 8 to 16 GPUs)" in told
