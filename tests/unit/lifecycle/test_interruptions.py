"""How an interruption is told: by the machine that went away, or by who took the pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.job import PodPhase, RunOutcome
from charterer.domain.pool import InstanceState
from charterer.domain.rental import RentalPhase
from tests.factory import at, instance, node, notice, pod, run, survey
from tests.unit.lifecycle.test_run import KEY, LABELLED, MACHINES, RENTALS, mine, placed, recorded

EVICTED = run(
    1,
    pod(phase=PodPhase.FAILED, disrupted=True),
    failed=at(100),
    failed_by_disruption=True,
    failed_message="PodFailurePolicy: Pod vision/sft-r1-0 has condition DisruptionTarget matching FailJob rule",
)
STOPPING = survey(replace(MACHINES[0], state=InstanceState.STOPPING), instance("i2"), asked=600)
NOTICED = survey(*MACHINES, notices=(notice("i1", 700),), asked=600)
ENDED = tuple(replace(one, phase=RentalPhase.ENDED) for one in RENTALS)


@pytest.mark.parametrize(
    ("things", "nodes", "message"),
    [
        ((), LABELLED, "sft-r1-0 was evicted or preempted by somebody"),
        ((STOPPING,), LABELLED, "instance i1, the machine of a100-1, is Stopping"),
        ((NOTICED,), LABELLED, "the cloud takes back instance i1, the machine of a100-1"),
        (ENDED, LABELLED, "instance i1, the machine of a100-1, has ended"),
        ((), (node(ready=False, run_labels={KEY: "r1"}), node("i2")), "the Node of a100-1 (instance i1) is not ready"),
    ],
)
def test_a_disruption_names_the_machine_that_went_away(things: Any, nodes: Any, message: str) -> None:
    done = recorded(placed(mine(EVICTED), *things, nodes=nodes))
    assert (done.record.outcome, done.record.message) == (RunOutcome.INTERRUPTED, message)
