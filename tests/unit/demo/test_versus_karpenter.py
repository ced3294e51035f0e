"""Plain Jobs on Karpenter beside Charterer: what is submitted, what ends, what it costs."""

from __future__ import annotations

import json

import pytest

from demo import run
from demo.columns import Column
from demo.pods import running_run
from demo.scenario import Scenario, workload
from tests.bench import versus_karpenter
from tests.bench._plain_jobs import ended, gpus_per_pod, node_pool, plain_job, spent
from tests.testbed.karpenter_process import CloudInstance
from tests.unit.demo.samples import column

HOUR = workload(30, cloud="karpenter")


@pytest.mark.parametrize(("asked", "each"), [(1, 1), (2, 2), (4, 4), (5, 1), (6, 3), (8, 4), (24, 4)])
def test_a_plain_job_has_equal_pods_and_as_few_as_can_be(asked: int, each: int) -> None:
    assert gpus_per_pod(asked, 4) == each


def test_a_plain_job_trains_at_the_width_that_was_asked_for_once_all_of_its_pods_run() -> None:
    asked_six = next(job for job in HOUR.jobs if job.asked == 6)
    spec = plain_job(HOUR, asked_six)["spec"]
    assert (spec["completions"], spec["parallelism"]) == (2, 2)
    pod = spec["template"] | {"status": {"phase": "Running"}}
    running = running_run([pod, pod])
    assert running is not None
    assert running.gpus == 6
    assert running_run([pod]) is None


def test_a_plain_job_has_ended_when_kubernetes_says_that_it_is_complete_or_failed() -> None:
    def told(kind: str, status: str) -> dict[str, object]:
        return {"status": {"conditions": [{"type": kind, "status": status, "reason": "Why", "message": "so"}]}}

    assert ended({}) is None
    assert ended(told("SuccessCriteriaMet", "True")) is None
    assert ended(told("Complete", "True")) == ""
    assert ended(told("Failed", "False")) is None
    assert ended(told("Failed", "True")) == "Why: so"


def test_the_node_pool_says_nothing_of_disruption_so_that_karpenters_defaults_count() -> None:
    assert "disruption" not in json.dumps(node_pool("g4dn.12xlarge"))


def test_dollars_grow_from_each_machines_launch_to_its_end() -> None:
    offer = "g4dn.12xlarge/on-demand/fake-1a"
    machines = [CloudInstance("a", "a", offer, 100.0, 220.0), CloudInstance("b", "b", offer, 160.0, 220.0)]
    points = dict(spent(HOUR, machines, 100.0))
    hour = 3.912
    assert points == pytest.approx({0.0: 0.0, 1800.0: 0.5 * hour, 3600.0: 1.5 * hour})


def test_for_the_same_money_the_budget_pays_the_most_that_costs_no_more() -> None:
    def at(of: Scenario) -> Column:
        return column(of, 600.0, 40.0 + (of.most_pays or 0))

    assert versus_karpenter.for_money(HOUR, 90.0, at).most_pays == 50
    assert versus_karpenter.for_money(HOUR, 10.0, at).most_pays == 1


def test_the_table_has_a_column_for_each_run() -> None:
    told = versus_karpenter.table({"plain": column(HOUR, 600.0, 80.0), "budget": column(HOUR, 540.0, 60.0)})
    assert "mean completion time              10.0 min     9.0 min" in told
    assert "dollars                             $80.00      $60.00" in told


def test_the_whole_workload_has_160_jobs_and_the_demos_hour_28() -> None:
    assert [len(workload(30, jobs).jobs) for jobs in (28, 160)] == [28, 160]


def test_what_was_measured_is_shown_beside_the_same_jobs_only() -> None:
    assert run.measured(HOUR) == run.MEASURED
    assert run.measured(workload(30, 160)) is None
