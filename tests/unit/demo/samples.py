"""Objects as they come from the API server, the operator and the cloud in the middle of a replay."""

from __future__ import annotations

from typing import Any

from demo.columns import Column, ColumnJob, Columns
from demo.replay import Replayed
from demo.scenario import Scenario, an_hour
from demo.training import Training
from demo.view import Observed, View, view

Json = dict[str, Any]

METRICS = """\
# HELP charterer_budget_exchange_rate_dollars_per_hour What the budget pays for an hour of a job's life.
# TYPE charterer_budget_exchange_rate_dollars_per_hour gauge
charterer_budget_exchange_rate_dollars_per_hour{budget="research"} 184.0
charterer_pool_gpus{pool="t4",state="used"} 12.0
charterer_pool_gpus{pool="t4",state="idle"} 4.0
"""


def scenario() -> Scenario:
    """The demo's own, 40 times as fast."""
    return an_hour(40)


def replayed(of: Scenario) -> dict[str, Replayed]:
    """The first two jobs submitted: one complete after 17.5 minutes, one training on 4 GPUs for ten."""
    jobs = {job.name: Replayed(job, Training(job.work, 300.0)) for job in of.jobs}
    first, second, *_ = jobs.values()
    first.submitted, first.completed, first.widths = 60.0, 1_110.0, [4]
    first.began, first.held = 200.0, [(200.0, 4), (1_110.0, 0)]
    second.submitted, second.widths = 450.0, [4]
    second.began, second.held = 600.0, [(600.0, 4)]
    second.training = second.training.begin(1, 600.0, second.job.application.speedup(4), 30.0).advance(1_200.0)
    return jobs


def column(of: Scenario, seconds: float, dollars: float) -> Column:
    """A way to run the hour in which each job waits 60 s, has 4 GPUs and ends after ``seconds``."""
    jobs = [
        ColumnJob(job.name, at, at + 60.0, at + seconds, [(at + 60.0, 4), (at + seconds, 0)])
        for job in of.jobs
        for at in (job.submitted,)
    ]
    return Column(jobs, dollars, 20, [(0.0, 0.0), (4_000.0, dollars)])


def columns(of: Scenario) -> Columns:
    """Today 20 min for $80, the same money 16 min, the budget 17 min for $60."""
    return Columns(column(of, 1_200.0, 80.0), column(of, 960.0, 79.5), column(of, 1_020.0, 60.0))


def training_job(name: str, **status: object) -> Json:
    return {"metadata": {"name": name}, "status": status}


def event(name: str, reason: str, note: str, at: str) -> Json:
    return {
        "metadata": {"creationTimestamp": at},
        "eventTime": at,
        "reason": reason,
        "note": note,
        "regarding": {"apiVersion": "charterer.dev/v1alpha1", "kind": "TrainingJob", "name": name},
    }


def seen() -> Observed:
    """One look: two jobs, two rentals in the first pool, one of them ready, the second pool cooling."""
    return Observed(
        jobs=[
            training_job("yolov3-52", state="Complete", cost="1.25", why="Finished"),
            training_job(
                "cifar10-53", state="Running", gpus=4, wantGpus=4, pool="t4", cost="0.60", why="BudgetOptimal"
            ),
        ],
        rentals=[
            {"spec": {"pool": "t4"}, "status": {"phase": "Ready"}},
            {"spec": {"pool": "t4"}},
        ],
        pools=[
            {"metadata": {"name": "t4"}, "spec": {"maxNodes": 12}, "status": {"state": "Ready"}},
            {
                "metadata": {"name": "t4-spot"},
                "spec": {"maxNodes": 12},
                "status": {"state": "Cooling", "cooled": [{"kind": "StockOut"}]},
            },
        ],
        events=[
            event("cifar10-53", "BudgetOptimal", "4 GPUs: a second saved costs $0.0012", "2026-01-01T10:00:02.5Z"),
            event("yolov3-52", "Finished", "all pods succeeded", "2026-01-01T10:00:01.5Z"),
            {"metadata": {"creationTimestamp": "2026-01-01T10:00:00Z"}, "regarding": {"apiVersion": "v1"}},
        ],
        metrics=METRICS,
        machines=[{"group": "t4", "state": "Running"}, {"group": "t4", "state": "Ended"}],
        billed=3.5,
    )


def a_view() -> View:
    """The view of that look, 20 minutes into the workload."""
    of = scenario()
    return view(of, replayed(of), 1_200.0, seen())
