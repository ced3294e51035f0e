"""The simulator against what is known otherwise: the theory's closed form, and an independent reproduction."""

from __future__ import annotations

import math
import random
import statistics
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace

import pytest

from charterer.domain.job import Widths
from charterer.domain.profile import ThroughputTable
from charterer.domain.time import parse_instant
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_phases, exact_profile
from charterer.tools.simulator.model.ground_truth import application_from_speeds
from charterer.tools.simulator.model.scenario import JobTerms, class_of
from charterer.tools.simulator.model.sim_job import SimJob
from charterer.tools.simulator.simulation import Simulation
from tests.bench import _pollux as pollux
from tests.boa_reference import BoaReference
from tests.lanes import repeats
from tests.unit.simulate.scenarios import budget, run, scenario

WIDTHS = (1, 2, *(4 * nodes for nodes in range(1, 17)))


@pytest.mark.parametrize("worth", [20.0, *repeats(2.0, 200.0)])
def test_without_overheads_completion_time_and_spend_are_the_closed_forms(worth: float) -> None:
    """Amdahl's law on whole nodes at θ: every job has the width where (θ + c·k)·((1-p) + p/k) is least."""
    parallel, seconds = 0.95, 1000.0
    times = {gpus: seconds * ((1 - parallel) + parallel / gpus) for gpus in WIDTHS if gpus >= 4}
    best = min(times, key=lambda gpus: (worth + gpus) * times[gpus])
    draw = random.Random(1)
    arrivals = sorted(draw.uniform(0.0, 20_000.0) for _ in range(200))
    given = scenario(*arrivals, application=application_from_speeds("amdahl", times), budget=budget(rate=worth))
    result = run(given)
    assert result.mean_completion_seconds == pytest.approx(times[best], rel=1e-9)
    billed = math.ceil(times[best] - 1e-6)  # by the second, each node anew
    assert 200 * best * times[best] <= result.spent.dollars * (1 + 1e-9) <= 200 * best * billed * (1 + 2e-9)


@pytest.mark.slow
def test_with_a_budget_the_spend_of_a_steady_load_is_the_budget() -> None:
    """Declared arrivals, no overheads: the classes' mix spends what is allowed (θ* is solved, not given)."""
    times = {gpus: 40_000.0 * (0.05 + 0.95 / gpus) for gpus in WIDTHS if gpus >= 4}
    application = application_from_speeds("amdahl", times)
    draw = random.Random(5)
    days, rate = 9 * 86_400.0, 1 / 1800
    arrivals: list[float] = []
    while (at := (arrivals[-1] if arrivals else 0.0) + draw.expovariate(rate)) < days:
        arrivals.append(at)
    given = scenario(*arrivals, application=application, budget=budget(amount="55000000"), until=days)
    truth = exact_phases(application)
    profile = exact_profile(class_of(application.name), truth, 0.0, arrivals_per_hour=rate * 3600)
    memo = Memo()
    result = Simulation(given, lambda snapshot: plan(snapshot, memo), ExactKnowledge({profile.id: profile})).run()
    assert result.spent.dollars == pytest.approx(55e6 * 9 / 30, rel=0.1)


@pytest.mark.slow
def test_a_budget_too_small_for_its_load_rents_nothing_that_it_then_does_not_use() -> None:
    """Jobs queue for money; each node is rented for a job that then has it, and what is allowed is spent.

    The budget is made five days before the month's end, and pays for five and a quarter of ten jobs at a time.
    """
    application = application_from_speeds("rigid", {4: 6_000.0})
    draw = random.Random(5)
    days, rate = 5 * 86_400.0, 1 / 600
    arrivals: list[float] = []
    while (at := (arrivals[-1] if arrivals else 0.0) + draw.expovariate(rate)) < days:
        arrivals.append(at)
    amount = 4 * 5.25 * days
    start = parse_instant("2026-06-26T00:00:00Z")
    made = replace(budget(amount=f"{amount:.0f}"), created=start)
    given = scenario(*arrivals, application=application, budget=made, start=start, until=days)
    profile = exact_profile(class_of(application.name), exact_phases(application), 0.0, rate * 3600)
    memo = Memo()
    result = Simulation(given, lambda world: plan(world, memo), ExactKnowledge({profile.id: profile})).run()
    assert result.total_gpu_hours == pytest.approx(sum(job.gpu_seconds for job in result.jobs) / 3600, rel=1e-6)
    assert result.spent.dollars == pytest.approx(amount, rel=0.1)


@pytest.mark.skipif(bool(pollux.absent()), reason=pollux.absent() or "present")
def test_the_plain_policy_comes_out_as_in_an_independent_reproduction() -> None:
    """Workload 3 under the plain policy, widths by coarse phases, against the same measured there (true tables)."""
    phases = {name: exact_phases(one, 6, 0.05) for name, one in pollux.applications().items()}

    def rates(task: SimJob, done: float) -> Mapping[int, float]:
        mine = phases[task.application.name]
        at = min(bisect_right([phase.until for phase in mine], done), len(mine) - 1)
        form = mine[at].curves[0].form
        assert isinstance(form, ThroughputTable)
        return dict(form.points)

    points = []
    for rate in pollux.rates(14, 3.0, 60.0):
        result = Simulation(pollux.scenario(3, rate), BoaReference(rate / 3600, rates), ExactKnowledge({})).run()
        points.append((result.total_gpu_hours, result.mean_completion_seconds))
    theirs = pollux.envelope(
        (float(row["rented_gpu_h"]), float(row["mean_jct_s"]))
        for row in pollux.baseline("budget_optimal")
        if row["information"] == "true tables" and row["workload"] == "3"
    )
    ratios = [ours / seconds for hours, seconds in theirs if (ours := pollux.at_hours(points, hours)) is not None]
    assert len(ratios) > 8
    assert statistics.median(ratios) == pytest.approx(1.0, abs=0.03)


def test_terms_are_per_submission() -> None:
    given = scenario(0.0, 0.0, terms=lambda one: JobTerms(Widths(2, 2, 2) if one.name == "j0" else Widths(4, 4, 4)))
    result = run(given)
    assert sorted(job.completion_seconds or 0.0 for job in result.jobs) == [250.0, 500.0]
