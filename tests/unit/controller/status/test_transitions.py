"""Which Events a changed view is: each state that somebody should know of, once, when it begins."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from charterer.api.manifests import EventSubject
from charterer.cluster.client import Client
from charterer.cluster.events import Recorder
from charterer.controller.status.events import TransitionEvents, transitions

Told = list[tuple[str, str, bool]]


def status(state: str, why: str = "", **conditions: tuple[str, str, str]) -> dict[str, Any]:
    """A status with conditions by type: status, reason and message."""
    listed = [
        {"type": kind, "status": holds, "reason": reason, "message": message}
        for kind, (holds, reason, message) in conditions.items()
    ]
    return {"state": state, "why": why, "conditions": listed}


def told(before: dict[str, Any], after: dict[str, Any]) -> Told:
    return [(one.reason, one.note, one.warning) for one in transitions(before, after)]


def waits(why: str, message: str = "for something") -> dict[str, Any]:
    admitted = ("True", "Accepted", "paid by GPUBudget team")
    ready = ("False", "Queued", message)
    return status("Queued", why, Ready=ready, Admitted=admitted, CapacityAvailable=("False", why, message))


@pytest.mark.parametrize(
    ("why", "warning"),
    [
        ("WaitingForBudget", False),
        ("WaitingForNode", False),
        ("PoolFull", False),
        ("PoolCooling", False),
        ("BackOff", True),
        ("HourlyLimit", False),
        ("HardLimit", True),
        ("MaxCost", True),
        ("NotAskedYet", False),
        ("NoOption", True),
    ],
)
def test_a_waiting_job_says_once_what_it_waits_for(why: str, warning: bool) -> None:
    assert told({}, waits(why)) == [(why, "for something", warning)]
    assert told(waits("WaitingForBudget" if why != "WaitingForBudget" else "PoolFull"), waits(why)) != []
    assert told(waits(why), waits(why, "for something else")) == []


def test_a_job_that_runs_after_a_wait_has_not_recovered() -> None:
    admitted = ("True", "Accepted", "paid by GPUBudget team")
    runs = status("Running", "BudgetOptimal", Ready=("True", "Running", ""), Admitted=admitted)
    assert told(waits("WaitingForNode"), runs) == []


def test_an_edit_of_a_running_job_is_answered_once() -> None:
    had = ("True", "Placed", "the job has its GPUs")
    before = status("Running", "BudgetOptimal", CapacityAvailable=had)
    wrong = status("Running", "NoOption", CapacityAvailable=("True", "Placed", "it could not start again"))
    assert told(before, wrong) == [("NoOption", "it could not start again", True)]
    assert told(wrong, wrong) == []
    changed = status("Running", "BudgetOptimal", TemplateCurrent=("False", "TemplateChanged", "pods keep the old one"))
    assert told(before, changed) == [("TemplateChanged", "pods keep the old one", False)]
    assert told(changed, changed) == []


def test_a_variable_that_a_launcher_sets_is_a_warning_although_the_job_is_admitted() -> None:
    odd = status("Queued", Admitted=("True", "MisleadingVariables", "MASTER_ADDR is the same for every pod"))
    assert told({}, odd) == [("MisleadingVariables", "MASTER_ADDR is the same for every pod", True)]
    assert told(odd, odd) == []


@pytest.mark.parametrize("reason", ["NoBudget", "InvalidTemplate"])
def test_a_job_that_is_not_admitted_is_a_warning(reason: str) -> None:
    refused = status("Invalid", "Invalid", Admitted=("False", reason, "say what to do"))
    assert told({}, refused) == [(reason, "say what to do", True)]
    assert told(refused, refused) == []


def test_a_run_that_does_not_start_is_a_warning_as_soon_as_its_pods_say_why() -> None:
    young = status("Starting", PodsReady=("False", "NotReady", "0 of 1 pods of sft-r1 are ready"))
    late = status("Starting", PodsReady=("False", "NotStarting", "0 of 1 pods: ErrImagePull"))
    assert told(young, late) == [("NotStarting", "0 of 1 pods: ErrImagePull", True)]
    assert told(late, late) == []


@pytest.mark.parametrize(
    ("state", "reason"), [("TooSmall", "TooSmall"), ("Unreachable", "Unauthorized"), ("Invalid", "InvalidSpec")]
)
def test_a_budget_or_pool_that_cannot_be_used_is_a_warning_and_its_recovery_is_told(state: str, reason: str) -> None:
    good, bad = status("Ready", Ready=("True", "Available", "")), status(state, Ready=("False", reason, "why"))
    assert told(good, bad) == [(reason, "why", True)]
    assert told(bad, bad) == []
    assert told(bad, good) == [("Recovered", "ready again", False)]


@pytest.mark.parametrize("state", ["Deleting", "Cooling", "Unknown"])
def test_what_has_an_event_of_its_own_is_not_told_twice(state: str) -> None:
    assert told({}, status(state, Ready=("False", "Draining", ""))) == []


def test_an_overspent_budget_is_a_warning() -> None:
    over = status("Overspent", Ready=("True", "Enforcing", ""), WithinBudget=("False", "ForecastExceedsAmount", "$2"))
    begun = told(status("Ready", Ready=("True", "Enforcing", ""), WithinBudget=("True", "OnCourse", "")), over)
    assert begun == [("Overspent", "$2", True)]
    assert told(over, over) == []


def test_a_price_that_is_held_and_an_operator_that_is_stopped_are_warnings_once() -> None:
    held = status("Ready", PriceHeld=("True", "PriceMoved", "the cloud asks $80"))
    stopped = status("Ready", Stopped=("True", "NothingRented", "a person"))
    drained = status("Ready", Stopped=("True", "Drained", "a person"))
    assert told(status("Ready"), held) == [("PriceMoved", "the cloud asks $80", True)]
    assert told(held, held) == told(held, status("Ready")) == []
    assert told(status("Ready"), stopped) == [("NothingRented", "a person", True)]
    assert told(stopped, drained) == [("Drained", "a person", True)]
    left = status("Observing", LeftRunning=("True", "NoLimitHolds", "2 nodes cost $3.00/h"))
    assert told(status("Observing"), left) == [("NoLimitHolds", "2 nodes cost $3.00/h", True)]
    assert told(left, status("Observing", LeftRunning=("True", "NoLimitHolds", "1 node costs $1.50/h"))) == []


def test_a_record_of_costs_that_takes_nothing_any_more_is_a_warning_once() -> None:
    takes = status("Ready", CostsRecorded=("True", "RecordWritten", "all is well"))
    full = status("Ready", CostsRecorded=("False", "RecordRefuses", "the volume is full"))
    assert told(takes, full) == [("RecordRefuses", "the volume is full", True)]
    assert told(full, full) == told(full, takes) == []


def test_what_goes_back_and_forth_is_told_every_ten_minutes_at_most() -> None:
    heard: list[tuple[EventSubject, str]] = []
    now = 0.0

    class Heard:
        def record(self, subject: EventSubject, reason: str, note: str, *, action: str, warning: bool) -> None:
            heard.append((subject, reason))

        def said(self, subject: EventSubject, reason: str) -> bool:
            return False

    events = TransitionEvents(cast(Recorder, Heard()), lambda: now)
    job: dict[str, Any] = {"metadata": {"name": "sft", "namespace": "research", "uid": "u"}}
    for minute in range(11):
        now = minute * 60.0
        events.shown("TrainingJob", {}, job | {"status": waits("WaitingForBudget")})
    assert [reason for _, reason in heard] == ["WaitingForBudget"] * 2
    subject = heard[0][0]
    assert (subject.kind, subject.namespace, subject.name, subject.uid) == ("TrainingJob", "research", "sft", "u")
    heard.clear()
    job["spec"] = {"targetRef": {"apiVersion": "batch/v1", "kind": "Job", "name": "whisper", "uid": "w"}}
    events.shown("TrainingJob", {}, job | {"status": waits("NoOption")})
    assert [subject for subject, _ in heard] == [
        subject,
        EventSubject("batch/v1", "Job", "research", "whisper", "w"),  # at which its owner looks
    ]


def test_what_was_done_and_told_is_not_told_again_as_what_is_seen() -> None:
    async def main() -> None:
        recorder = Recorder(cast(Client, None), instance="pod-0")
        events = TransitionEvents(recorder)
        stopped, other = ({"metadata": {"name": n, "namespace": "ai", "uid": n}} for n in ("one", "two"))
        subject = EventSubject("charterer.dev/v1alpha1", "TrainingJob", "ai", "one", "one")
        recorder.record(subject, "MaxCost", "it has cost $5: raise spec.maxCost", action="Allocate", warning=True)
        events.shown(
            "TrainingJob", {}, stopped | {"status": waits("MaxCost", "it cannot start for $5: raise spec.maxCost")}
        )
        assert recorder.waiting == 1
        events.shown("TrainingJob", {}, other | {"status": waits("MaxCost")})
        assert recorder.waiting == 2

    asyncio.run(main())


@pytest.mark.parametrize(
    ("kind", "bad", "good"), [("OnTarget", "TargetMissed", "InTime"), ("WithinMaxCost", "MaxCost", "NotLimited")]
)
def test_a_limit_of_the_jobs_own_is_told_when_it_cannot_be_kept_and_when_it_can_again(
    kind: str, bad: str, good: str
) -> None:
    def runs(holds: str, reason: str, message: str) -> dict[str, Any]:
        condition = {"type": kind, "status": holds, "reason": reason, "message": message}
        return {"state": "Running", "conditions": [condition]}

    missed, kept = runs("False", bad, "an hour too late"), runs("True", good, "in time")
    unknown = runs("Unknown", "EndUnknown", "")
    assert told(kept, missed) == told({}, missed) == [(bad, "an hour too late", True)]
    assert told(missed, kept) == [(good, "in time", False)]
    assert told(missed, missed) == told({}, kept) == told(missed, unknown) == told(missed, {}) == []


def test_a_job_that_waits_for_its_max_cost_says_so_once() -> None:
    waiting = waits("MaxCost")
    waiting["conditions"].append(
        {"type": "WithinMaxCost", "status": "False", "reason": "MaxCost", "message": "too low"}
    )
    assert told({}, waiting) == [("MaxCost", "for something", True)]


def test_a_currency_rate_that_grows_old_is_told_once_however_old_it_grows() -> None:
    current = status("Ready", CurrencyRateCurrent=("True", "RateCurrent", "0.92 EUR a dollar"))
    old = status("Ready", CurrencyRateCurrent=("False", "RateStale", "36 days old"))
    older = status("Ready", CurrencyRateCurrent=("False", "RateStale", "37 days old"))
    assert told(current, old) == [("RateStale", "36 days old", True)]
    assert told(old, older) == []
