"""Interactive jobs in the simulator: cells wait for a GPU, run, and leave it unused until the planner takes it back."""

from __future__ import annotations

import pytest

from charterer.domain.job import ResizePolicy, Widths
from charterer.domain.money import Price
from charterer.tools.simulator.model.ground_truth import application_from_speeds
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms
from charterer.tools.simulator.model.workload import Cell, Notebook, Submission
from tests.unit.simulate.scenarios import run, scenario

POOL = PoolModel("a100", 1, Price.parse("3.60"), start_seconds=100.0)
"""A tenth of a cent a second."""


def simulated(notebook: Notebook) -> SimulationResult:
    """One notebook, whose worker starts in 20 s on a node that takes 100 s to start."""
    job = Submission("nb", 0.0, "nb", 1, notebook=notebook)
    terms = JobTerms(Widths(1, 1, 1), resize=ResizePolicy.NEVER)
    hour = application_from_speeds("nb", {1: 3600.0})
    given = scenario(application=hour, pool=POOL, submissions=(job,), terms=lambda _: terms, restart_seconds=20.0)
    return run(given)


@pytest.mark.parametrize(
    ("idle_seconds", "waits", "seconds"),
    [
        (30.0, (120.0, 120.0), 2 * (120 + 50) + 30),  # two starts and cells, and the idle time after the first
        (5_000.0, (120.0, 0.0), 120 + 50 + 1_000 + 50),
    ],
)
def test_cells_wait_for_a_gpu_that_was_given_back_and_for_none_that_is_held(
    idle_seconds: float, waits: tuple[float, ...], seconds: float
) -> None:
    cells = [Cell(10.0, 50.0), Cell(1_000.0, 50.0)]
    result = simulated(Notebook(cells, Price.parse("20"), idle_seconds))
    (job,) = result.jobs
    assert job.cell_waits == waits
    assert result.spent.dollars == pytest.approx(0.001 * seconds, abs=0.003)


def test_the_owners_hour_decides_for_how_long_a_gpu_is_held() -> None:
    cells = [Cell(10.0, 50.0), Cell(900.0, 50.0)]
    waits = {hourly: simulated(Notebook(cells, Price.parse(hourly))).jobs[0].cell_waits for hourly in ("10", "60")}
    assert waits == {"10": (120.0, 120.0), "60": (120.0, 0.0)}
