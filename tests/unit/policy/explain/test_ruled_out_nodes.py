"""What is told of pools whose nodes a template rules out."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.ids import JobId
from charterer.domain.node_demands import NodeDemands, Requirement
from charterer.policy import plan
from charterer.policy.explain.ruled_out import nodes_not_fitting, ruled_out
from charterer.policy.planner import solve_budgets
from tests.worlds import World

IN_B = NodeDemands(every=(Requirement("topology.kubernetes.io/zone", "In", ("zone-b",)),))


def world(demands: NodeDemands, each: int = 0) -> World:
    made = World()
    made.budget()
    made.pool("a100")
    made.pool("h100")
    made.job("train", gpus=12, each=each, demands=demands)
    return made


def told(made: World) -> list[str]:
    snapshot = made.snapshot()
    (solution,) = solve_budgets(snapshot)
    return list(nodes_not_fitting(made.jobs[JobId("train")], solution))


def why(made: World) -> dict[str, str]:
    snapshot = made.snapshot()
    (solution,) = solve_budgets(snapshot)
    job = made.jobs[JobId("train")]
    return {each.pool: each.why for each in ruled_out(job, plan(snapshot).jobs[job.id], solution)}


def test_each_pool_that_is_ruled_out_is_told_with_the_term() -> None:
    made = world(IN_B)
    (first, second) = told(made)
    assert first.startswith("a100 is no option: nodes have topology.kubernetes.io/zone=zone-a, and spec.template asks")
    assert second.startswith("h100 is no option")
    assert why(made)["a100"].startswith("of its nodes: nodes have topology.kubernetes.io/zone=zone-a")


def test_nothing_is_told_of_pools_whose_type_the_job_does_not_take() -> None:
    made = world(IN_B)
    made.jobs[JobId("train")] = replace(made.jobs[JobId("train")], gpu_types=("h100",))
    assert [each[:4] for each in told(made)] == ["h100"]


def test_what_only_the_scheduler_judges_is_said() -> None:
    assert told(world(NodeDemands(unread=("affinity.podAffinity",)))) == [
        "spec.template.spec.affinity.podAffinity: only the scheduler judges whether a node meets this, once the node "
        "is there."
    ]


def test_pods_for_which_a_pool_has_too_few_nodes_are_told_with_how_many_a_node_takes() -> None:
    made = world(NodeDemands(), each=3)
    made.pools = {name: replace(pool, max_nodes=1) for name, pool in made.pools.items()}
    assert why(made)["a100"] == "a node takes 2 pods of 3 GPUs, and maxNodes is 1"
