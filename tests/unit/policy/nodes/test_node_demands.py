"""What a template asks of its nodes decides which pools its job is given nodes of, and how many GPUs it takes there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import JobId, PoolId
from charterer.domain.job import ResizePolicy
from charterer.domain.node_demands import NodeDemands, NodeTaint, NodeTraits, Requirement, Toleration
from charterer.domain.plan import Allocate, ReasonCode, Rent
from charterer.policy import plan
from tests.worlds import World

JOB = JobId("train")
IN_B = NodeDemands(every=(Requirement("topology.kubernetes.io/zone", "In", ("zone-b",)),))


def world() -> World:
    """Pool a100 in zone-a for $16 and h100 in zone-b for $40."""
    made = World()
    made.budget()
    made.pool("a100", price="16")
    dear = made.pool("h100", price="40")
    assert dear.offering is not None
    made.pools[dear.id] = replace(dear, offering=replace(dear.offering, zone="zone-b"))
    return made


def rents(made: World, demands: NodeDemands, **job: object) -> list[str]:
    """The pools of which nodes are rented for the job."""
    made.job("train", demands=demands, **job)  # type: ignore[arg-type]
    return [command.pool for command in plan(made.snapshot()).commands if isinstance(command, Rent)]


def told(made: World, demands: NodeDemands) -> str:
    made.job("train", demands=demands)
    decided = plan(made.snapshot())
    assert not decided.commands
    assert decided.jobs[JOB].reason.code is ReasonCode.NO_OPTION
    return decided.jobs[JOB].reason.message


def test_a_selector_chooses_the_pool_though_another_is_better() -> None:
    in_a = NodeDemands(every=(Requirement("topology.kubernetes.io/zone", "In", ("zone-a",)),))
    assert rents(world(), NodeDemands()) == ["h100"]
    assert rents(world(), IN_B) == ["h100"]
    assert rents(world(), in_a) == ["a100"]


def test_a_selector_of_a_gpu_chooses_its_type() -> None:
    product = NodeDemands(every=(Requirement("nvidia.com/gpu.product", "In", ("a100",)),))
    assert rents(world(), product) == ["a100"]


def test_a_label_that_is_only_declared_is_enough() -> None:
    made, team = world(), NodeDemands(every=(Requirement("team", "In", ("vision",)),))
    made.pool("mine", price="90", node_labels={"team": "vision"})
    assert rents(made, team) == ["mine"]


def test_no_option_names_the_term_the_value_and_the_nearest_pool() -> None:
    message = told(world(), NodeDemands(every=(Requirement("topology.kubernetes.io/zone", "In", ("zone-c",)),)))
    assert "of GPUPool a100, nodes have topology.kubernetes.io/zone=zone-a" in message
    assert "spec.template asks for topology.kubernetes.io/zone=zone-c" in message
    assert "1 other pool lacks as much or more" in message


def test_a_pool_in_several_zones_is_an_option_for_who_takes_them_all_and_told_to_who_takes_one() -> None:
    made = World()
    made.budget()
    wide = made.pool("wide", price="16")
    assert wide.offering is not None
    made.pools[wide.id] = replace(wide, offering=replace(wide.offering, zone="zone-a,zone-b"))
    both = NodeDemands(every=(Requirement("topology.kubernetes.io/zone", "In", ("zone-a", "zone-b", "zone-c")),))
    assert rents(made, both) == ["wide"]
    message = told(made, IN_B)
    assert "nodes have topology.kubernetes.io/zone=zone-a or zone-b" in message
    assert "add a GPUPool all of whose nodes have what it asks for" in message


def test_a_label_that_nobody_knows_of_is_told_with_where_to_declare_it() -> None:
    message = told(world(), NodeDemands(every=(Requirement("team", "In", ("vision",)),)))
    assert "no node is known to have the label team" in message
    assert "spec.labels of the GPUPool" in message


def test_a_node_pool_of_karpenter_is_told_to_be_taken_out() -> None:
    message = told(world(), NodeDemands(every=(Requirement("karpenter.sh/nodepool", "In", ("gpu",)),)))
    assert "nodes belong to no NodePool of Karpenter" in message


def test_a_taint_keeps_a_job_off_that_does_not_tolerate_it() -> None:
    made = world()
    for name in list(made.pools):
        pool = made.pools[name]
        assert pool.offering is not None
        traits = NodeTraits(taints=(NodeTaint("team", "vision", "NoSchedule"),))
        made.pools[name] = replace(pool, offering=replace(pool.offering, traits=traits))
    assert "nodes have the taint team=vision:NoSchedule" in told(made, NodeDemands(asks=(("cpu", 1),)))
    assert rents(made, NodeDemands(tolerations=(Toleration("team", "Exists"),))) == ["h100"]


def test_a_pod_that_asks_for_more_memory_than_a_node_has_rents_none() -> None:
    made = world()
    made.pools = {name: replace(pool, node_resources={"memory": 1000 << 38}) for name, pool in made.pools.items()}
    message = told(made, NodeDemands(asks=(("memory", 1000 << 41),)))
    assert "a node has 256Gi, and a pod asks for 2Ti of memory" in message


def test_a_resource_that_no_node_is_known_to_have_is_told_with_where_to_declare_it() -> None:
    message = told(world(), NodeDemands(asks=(("example.com/nic", 1000),)))
    assert "a pod asks for 1 of example.com/nic" in message
    assert "spec.resources of the GPUPool" in message


def test_of_equal_pools_the_one_is_taken_that_the_template_prefers() -> None:
    def equal() -> World:
        made = World()
        made.budget()
        for name in ("a", "b", "c"):
            made.pool(name, gpu_type="A100", node_labels={"rack": name})
        return made

    prefers = NodeDemands(preferred=((10, (Requirement("rack", "In", ("b",)),)),))
    assert rents(equal(), NodeDemands()) == ["a"]
    assert rents(equal(), prefers) == ["b"]
    made = equal()
    made.pools[PoolId("a")] = made.pool("a", gpu_type="A100", price="15", node_labels={"rack": "a"})
    assert rents(made, prefers) == ["a"], "a preference costs nothing"


def test_a_run_on_a_node_that_its_template_does_not_select_any_more_goes_on() -> None:
    """Kubernetes ignores affinity during execution, and so does Charterer."""
    made = world()
    made.rental("a100")
    made.job("train", gpus=8, demands=IN_B, resize=ResizePolicy.NEVER)
    made.runs_on("train", "a100-1", gpus=8)
    assert not [command for command in plan(made.snapshot()).commands if isinstance(command, Allocate)]


@pytest.mark.parametrize(
    ("pods", "each", "rented"), [(12, 1, 2), (3, 4, 2), (5, 1, 1), (2, 5, 2), (4, 3, 2), (2, 8, 2), (16, 1, 2)]
)
def test_the_pods_of_an_object_go_onto_as_few_nodes_as_hold_them(pods: int, each: int, rented: int) -> None:
    made = World()
    made.budget()
    made.pool()
    made.job("train", gpus=pods * each, each=each)
    decided = plan(made.snapshot())
    assert len([command for command in decided.commands if isinstance(command, Rent)]) == rented
    made.carry_out(decided)
    made.everything_starts()
    made.carry_out(plan(made.snapshot()))
    allocation = made.jobs[JOB].allocation
    assert allocation is not None
    assert [place.gpus for place in allocation.placements] == [each] * pods
    assert len({place.rental for place in allocation.placements}) == rented
    held = sum(place.takes for place in allocation.placements)
    assert held == (8 * rented if rented > 1 else pods * each)
    assert allocation.option.price.micros_per_hour == 16_000_000 * held // 8


def test_nobody_else_is_put_beside_pods_on_nodes_that_they_do_not_fill() -> None:
    made = World()
    made.budget()
    made.pool()
    made.job("train", gpus=12, each=1)
    made.carry_out(plan(made.snapshot()))
    made.everything_starts()
    made.carry_out(plan(made.snapshot()))
    made.everything_starts()
    made.job("small", gpus=1)
    assert [type(command) for command in plan(made.snapshot()).commands] == [Rent]


def test_pods_that_are_larger_than_any_node_have_no_option() -> None:
    made = World()
    made.budget()
    made.pool(gpus=4)
    made.job("train", gpus=16, each=8)
    decided = plan(made.snapshot())
    assert not decided.commands
    assert decided.jobs[JOB].reason.code is ReasonCode.NO_OPTION
    assert decided.jobs[JOB].reason.message == (
        "no GPUPool has nodes for pods of 8 GPUs: a node of GPUPool a100 has 4; ask for fewer GPUs in each pod, or add "
        "a pool of larger nodes"
    )


def test_pods_that_need_more_nodes_than_there_may_be_are_told_so() -> None:
    made = World()
    made.budget()
    made.pool(max_nodes=2)
    made.job("train", gpus=15, each=3)
    assert plan(made.snapshot()).jobs[JOB].reason.message == (
        "no GPUPool takes 5 pods of 3 GPUs: in GPUPool a100 they need 3 nodes of 8, and spec.maxNodes is 2: raise it, "
        "or ask for fewer"
    )
