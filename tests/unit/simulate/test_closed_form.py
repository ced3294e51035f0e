"""What `simulate` prints of one class equals the closed form, whatever the unit in which throughput is measured."""

from __future__ import annotations

import random
from dataclasses import replace
from math import ceil

import pytest

from charterer.domain.job import ResizePolicy
from charterer.domain.money import Price
from charterer.tools.documents.simulation import Simulated, plain
from charterer.tools.simulator.history.history import History, HistoryPart, PastJob, PastPool
from charterer.tools.simulator.history.savings import SavingsReplay, rates_around, savings, savings_replay
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.scenario import Scenario, new_budget
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.policy_registry import ApplicationWidths, PolicyChoice, simulate_scenario
from charterer.tools.simulator.replay import ReplayResult, dollars_by_job, replay
from tests.unit.simulate.histories import curve
from tests.unit.simulate.scenarios import START

UNITS = (1e-3, 1.0, 10.0, 1e6)
"""Throughput on one GPU: the same training counted in epochs, steps, samples or tokens."""
SPEED = {1: 1.0, 2: 1.9, 4: 3.6}
"""The documented curve, `1:10 2:19 4:36`, relative to one GPU."""
HOURLY, START_SECONDS, RESTART = 16.0, 120.0, 30.0
POOL = PoolModel("pool", 4, Price.parse("16"), "gpu", start_seconds=START_SECONDS, max_nodes=100)
SINGLE = replace(POOL, gpus_per_node=1, hourly=Price.parse("4"))
GAP, JOBS, SECONDS = 10_000.0, 5, 3600.0


def history(unit: float, jobs: int = JOBS, gap: float = GAP, pool: PoolModel = POOL) -> PastPool:
    """Equal jobs of an hour on one GPU, far apart, so that none meets another."""
    past = (
        PastJob(f"j{at:02}", gap * at, 1, SECONDS, "sft", 1, 4, ResizePolicy.RESTART, took=4000.0) for at in range(jobs)
    )
    return PastPool(pool, tuple(past), {"sft": (curve({k: unit * speed for k, speed in SPEED.items()}, "gpu"),)})


def expected(gpus: int, idle: float, rented: int = 4) -> dict[str, float]:
    """The closed form of `JOBS` jobs at that width, each on nodes of its own of so many GPUs together, which are ended
    ``idle`` seconds later."""
    completion = START_SECONDS + RESTART + SECONDS / SPEED[gpus]
    return {
        "meanCompletionSeconds": completion,
        "medianCompletionSeconds": completion,
        "p90CompletionSeconds": completion,
        "rentedGPUHours": rented * JOBS * (completion + idle) / 3600,
        "dollars": HOURLY / 4 * rented * JOBS * ceil(completion + idle) / 3600,
        "restarts": 0,
        "jobs": JOBS,
        "complete": JOBS,
    }


def numbers(part: ReplayResult, choice: PolicyChoice) -> dict[str, float]:
    """What ``simulate -o json`` prints of it."""
    (printed,) = plain([Simulated(choice, (part,))])
    return {name: value for name, value in printed.items() if isinstance(value, int | float) and name != "learns"}


def agrees(printed: dict[str, float], closed_form: dict[str, float]) -> None:
    """Every number that is printed is that of the closed form, to the digits that are printed."""
    assert {name: printed.get(name) for name in closed_form} == pytest.approx(closed_form, rel=1e-4)


def best_width(rate: float) -> int:
    """The width at which dollars and time together cost least on nodes of one GPU, at ``rate`` dollars per job-hour."""
    return min(SPEED, key=lambda gpus: (rate + HOURLY / 4 * gpus) * (RESTART + SECONDS / SPEED[gpus]))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("rate", [0.1, 1.0, 16.0, 100.0])
def test_charterer_takes_the_closed_forms_time_and_money_in_any_unit_of_work(rate: float, unit: float) -> None:
    choice, past, width = PolicyChoice("charterer", rate), history(unit, pool=SINGLE), best_width(rate)
    agrees(numbers(replay(HistoryPart((past,)), choice), choice), expected(width, 0.0, rented=width))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("rate", [0.1, 100.0])
def test_a_job_that_is_alone_on_its_node_takes_all_of_it_in_any_unit_of_work(rate: float, unit: float) -> None:
    choice = PolicyChoice("charterer", rate)
    agrees(numbers(replay(HistoryPart((history(unit),)), choice), choice), expected(4, 0.0))


def test_the_rates_of_that_test_differ_in_their_best_width() -> None:
    assert {best_width(rate) for rate in (0.1, 1.0, 16.0, 100.0)} == {1, 2, 4}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(("policy", "idle"), [("as-asked", 600.0), ("as-asked:20", 20.0), ("as-asked:0", 0.0)])
def test_as_asked_takes_the_closed_forms_time_and_money_in_any_unit_of_work(
    policy: str, idle: float, unit: float
) -> None:
    choice = PolicyChoice(policy)
    agrees(numbers(replay(HistoryPart((history(unit),)), choice), choice), expected(1, idle))


@pytest.mark.parametrize("unit", UNITS)
def test_a_fixed_fleet_is_paid_from_the_first_submission_to_the_last_completion_in_any_unit(unit: float) -> None:
    printed = numbers(replay(HistoryPart((history(unit),)), PolicyChoice("fixed:1")), PolicyChoice("fixed:1"))
    paid = (JOBS - 1) * GAP + RESTART + SECONDS
    assert printed["rentedGPUHours"] == pytest.approx(4 * paid / 3600, rel=1e-3)
    assert printed["dollars"] == pytest.approx(HOURLY * paid / 3600, rel=1e-3)
    later = RESTART + SECONDS
    assert printed["medianCompletionSeconds"] == pytest.approx(later)
    assert printed["meanCompletionSeconds"] == pytest.approx(later + START_SECONDS / JOBS)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(
    "choice",
    [
        PolicyChoice("charterer", 1.0),
        PolicyChoice("charterer", 30.0),
        PolicyChoice("as-asked"),
        PolicyChoice("fixed:2"),
    ],
)
def test_the_same_jobs_as_a_history_and_as_submissions_have_the_same_numbers(choice: PolicyChoice, unit: float) -> None:
    past = history(unit)
    application = replace(past.application(past.jobs[0]), name="sft")
    scenario = Scenario(
        START,
        tuple(Submission(job.name, job.submitted, "sft", job.gpus) for job in past.jobs),
        {"sft": application},
        (POOL,),
        new_budget(START),
        ApplicationWidths({"sft": application}),
        RESTART,
    )
    submitted = numbers(ReplayResult((POOL,), simulate_scenario(scenario, choice)), choice)
    assert numbers(replay(HistoryPart((past,)), choice), choice) == pytest.approx(submitted)


@pytest.mark.parametrize("unit", UNITS)
def test_the_work_of_a_job_is_in_seconds_of_the_reference_option_in_any_unit(unit: float) -> None:
    past = history(unit)
    wide = replace(past.jobs[0], gpus=4, seconds=1000.0)
    assert past.work(past.jobs[0]) == pytest.approx(SECONDS)
    assert past.work(wide) == pytest.approx(3600.0)
    assert past.mean_work == {"sft": pytest.approx(SECONDS)}


def test_learning_from_reports_does_not_depend_on_the_unit_of_work() -> None:
    printed = []
    for unit in UNITS:
        choice = PolicyChoice("charterer", 30.0, random.Random(0).gauss)
        printed.append(numbers(replay(HistoryPart((history(unit, 6),)), choice), choice))
    assert all(other == pytest.approx(printed[0], rel=1e-3) for other in printed[1:])


@pytest.mark.slow
def test_observes_savings_do_not_depend_on_the_unit_of_work() -> None:
    found = []
    for unit in UNITS:
        past = history(unit, jobs=40, gap=900.0)
        of = History((past,))
        asked, *paying = (
            _replayed(of, choice)
            for choice in (
                PolicyChoice("as-asked"),
                *(PolicyChoice("charterer", rate) for rate in rates_around(of, 16.0)),
            )
        )
        found.append(savings(asked, paying, random.Random(0).random, resamples=50))
    first = found[0]
    assert first is not None
    for other in found[1:]:
        assert other is not None
        assert other.asked == pytest.approx(first.asked)
        assert other.at_money == pytest.approx(first.at_money)
        assert other.at_time == pytest.approx(first.at_time)


def _replayed(of: History, choice: PolicyChoice) -> SavingsReplay:
    parts = [replay(part, choice) for part in of.parts]
    seconds = {job.name: job.completion_seconds or 0.0 for part in parts for job in part.result.jobs}
    return savings_replay(of, choice.rate, seconds, dollars_by_job(parts))
