"""A run that failed on a machine which the cloud's list lacks."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.job import RunOutcome
from charterer.domain.steps import Wait
from tests.factory import at, run, survey
from tests.unit.lifecycle.test_run import BROKEN, MACHINES, RENTALS, mine, placed, recorded, step


def test_the_failure_of_a_run_is_judged_when_a_second_list_lacks_the_machine_too() -> None:
    failing, listed = mine(run(1, BROKEN, failed=at(100))), survey(MACHINES[1])
    assert isinstance(step(placed(failing, listed)), Wait)
    judged = placed(failing, listed, replace(RENTALS[0], missing_since=at(500)), RENTALS[1])
    assert recorded(judged).record.outcome is RunOutcome.INTERRUPTED
