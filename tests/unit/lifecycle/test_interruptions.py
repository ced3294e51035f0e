"""How an interruption is told: by the machine that went away, or by who took the pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.job import RunOutcome
from charterer.domain.pod import Pod, PodPhase
from charterer.domain.pool import InstanceState
from charterer.domain.rental import RentalPhase
from charterer.domain.steps import Wait
from tests.factory import at, instance, node, notice, pod, run, survey
from tests.unit.lifecycle.test_run import KEY, LABELLED, MACHINES, RENTALS, mine, placed, recorded, step

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


FAILED: dict[str, Any] = {"phase": PodPhase.FAILED}
GONE = pod(**FAILED, exit_code=143, finished=at(98), deleting=True, told_to_end=at(96), must_end_by=at(126))


@pytest.mark.parametrize("code", [1, 134, 143])
def test_what_peers_of_a_deleted_pod_do_is_no_failure_of_the_job(code: int) -> None:
    """JAX aborts them; others lose their connection, or stop because all ranks agreed to."""
    peer = pod(1, **FAILED, exit_code=code, finished=at(98))
    for failed in (run(1, GONE, peer, failed=at(100)), run(1, peer, departed=(GONE,), failed=at(100), completions=2)):
        done = recorded(placed(mine(failed)))
        assert (done.record.outcome, done.record.message) == (
            RunOutcome.INTERRUPTED,
            "sft-r1-0 was deleted by somebody",
        )


@pytest.mark.parametrize("told", [96, 98, 100])
def test_a_run_all_of_whose_pods_were_deleted_has_not_failed(told: int) -> None:
    """Also in the second in which they ended, and the Job with them."""
    both = [
        replace(GONE, index=n, name=f"sft-r1-{n}", told_to_end=at(told + n), finished=at(max(told, 98))) for n in (0, 1)
    ]
    done = recorded(placed(mine(run(1, departed=tuple(both), failed=at(100), completions=2))))
    assert done.record.outcome is RunOutcome.INTERRUPTED
    assert done.record.message == "sft-r1-0 was deleted by somebody"


@pytest.mark.parametrize(
    "deleted",
    [
        replace(GONE, told_to_end=at(97)),  # in the second of the failure: perhaps for it, by the Job's controller
        replace(GONE, told_to_end=at(99), finished=at(103)),
        replace(GONE, told_to_end=at(40), finished=at(50)),  # the peer went on without it
        replace(GONE, index=2),  # it had left a run that was resized in place
        replace(GONE, told_to_end=None, deleting=False, exit_code=137),  # nobody knows who killed it
    ],
)
def test_a_pod_that_was_deleted_later_or_long_before_explains_no_failure(deleted: Pod) -> None:
    bug = pod(1, **FAILED, exit_code=1, finished=at(97))
    failed = run(1, bug, departed=(deleted,), failed=at(100), completions=2)
    assert recorded(placed(mine(failed))).record.outcome is RunOutcome.FAILED


def test_when_a_pod_failed_is_not_known_before_its_end_was_told() -> None:
    unknown = pod(1, **FAILED, exit_code=1)
    failed = run(1, unknown, departed=(GONE,), failed=at(100), completions=2)
    assert recorded(placed(mine(failed))).record.outcome is RunOutcome.FAILED


def test_peers_that_abort_when_a_machine_dies_are_waited_for_until_its_pod_is_known_to_be_lost() -> None:
    aborted = pod(1, **FAILED, exit_code=134, finished=at(97))
    silent = run(1, pod(deleting=True, told_to_end=at(99)), aborted, failed=at(100))
    assert isinstance(step(placed(mine(silent))), Wait)
    lost = run(1, pod(**FAILED, disrupted=True, deleting=True, told_to_end=at(99)), aborted, failed=at(100))
    assert recorded(placed(mine(lost))).record.outcome is RunOutcome.INTERRUPTED
