"""The adapter of nodes that are there anyway: which Nodes take part, who holds them, and that it writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from charterer.clouds.existing import ExistingNodes
from charterer.domain.ids import BudgetId, InstanceId, OrderToken, PoolId, RentalId
from charterer.domain.money import Price
from charterer.domain.order import Ask, Order
from charterer.domain.pool import InstanceState, LeftOutWhy, MigStrategy, Partition, Pool, Survey
from charterer.domain.time import after, format_instant
from charterer.providers.errors import CloudUnreachable, InvalidRequest, ProviderError
from charterer.providers.existing import NODES, POOLS, RENTALS, ExistingCloud
from charterer.providers.objects import CallFailure, Json, Listed, ObjectsError
from charterer.providers.provider import Drained
from tests import factory as make

LABELS = {"example.com/gpus": "own"}
H100 = "NVIDIA-H100-80GB-HBM3"
OWN = PoolId("own")


class Cluster:
    """Nodes, GPURentals and GPUPools by path. Whatever writes fails."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.failure: CallFailure | None = None

    async def get(self, path: str) -> Json | None:
        return self.objects.get(path)

    async def list(self, path: str, *, labels: str = "", fields: str = "") -> Listed:
        if self.failure is not None:
            raise ObjectsError(self.failure, f"list {path}", "as the test says")
        wanted = dict(label.split("=") for label in labels.split(",")) if labels else {}
        found = [raw for at, raw in self.objects.items() if at.rpartition("/")[0] == path]
        return Listed(
            [raw for raw in found if wanted.items() <= raw["metadata"].get("labels", {}).items()], make.at(600)
        )

    async def create(self, path: str, body: Json, *, dry_run: bool = False) -> bool:
        raise AssertionError(f"it creates {path}")

    async def keep_by(self, path: str, resource_version: str, finalizers: Sequence[str]) -> str | None:
        raise AssertionError(f"it changes {path}")

    async def delete(self, path: str, *, uid: str, resource_version: str = "") -> bool:
        raise AssertionError(f"it deletes {path}")

    def node(
        self,
        name: str,
        *,
        gpus: int = 8,
        kind: str = H100,
        ready: bool = True,
        cordoned: bool = False,
        told: Mapping[str, str] | None = None,
        taint: str = "",
        created: float = 0.0,
        provider_id: str = "",
        resource: str = "nvidia.com/gpu",
        labels: Json | None = None,
    ) -> None:
        """A Node with the pool's labels."""
        product = {"nvidia.com/gpu.product": kind} if kind else {}
        self.objects[f"{NODES}/{name}"] = {
            "metadata": meta(name, created, labels={**LABELS, **product, "team": "ml", **(labels or {})}),
            "spec": {
                "unschedulable": cordoned,
                "providerID": provider_id,
                "taints": [{"key": taint, "effect": "NoSchedule"}] if taint else [],
            },
            "status": {
                "allocatable": {resource: str(gpus), "cpu": "96"},
                "conditions": [
                    {"type": "Ready", "status": "True" if ready else "False"},
                    *({"type": kind, "status": status} for kind, status in (told or {}).items()),
                ],
            },
        }

    def rental(self, name: str, *, pool: str = "own", own: bool = True, created: float = 10.0, **status: Any) -> None:
        """A GPURental."""
        cloud: Json = {"existing": {"nodeSelector": LABELS, "budget": "research"}} if own else {"fake": {}}
        self.objects[f"{RENTALS}/{name}"] = {
            "metadata": meta(name, created),
            "spec": {"pool": pool, **cloud},
            "status": status,
        }

    def pool(self, name: str, created: float, labels: Json) -> None:
        """Another GPUPool of nodes that are there anyway."""
        self.objects[f"{POOLS}/{name}"] = {
            "metadata": meta(name, created),
            "spec": {"existing": {"nodeSelector": labels, "budget": "prod"}},
        }


def meta(name: str, created: float, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "creationTimestamp": format_instant(make.at(created)),
        **more,
    }


def own_pool(**changes: Any) -> Pool:
    fields: dict[str, Any] = {
        "id": OWN,
        "created": make.at(5),
        "cloud": ExistingNodes(tuple(LABELS.items()), BudgetId("research")),
        "price_override": Price(0),
        "offering": None,
    }
    return make.pool(**(fields | changes))


def declared(gpus: int = 8, kind: str = "H100") -> ExistingNodes:
    return ExistingNodes(tuple(LABELS.items()), BudgetId("research"), kind, gpus)


def answer(cluster: Cluster, pool: Pool | None = None, cloud: ExistingCloud | None = None) -> Survey | ProviderError:
    pool, cloud = pool or own_pool(), cloud or ExistingCloud(cluster)
    return asyncio.run(cloud.survey([pool]))[pool.id]


def survey(cluster: Cluster, pool: Pool | None = None, cloud: ExistingCloud | None = None) -> Survey:
    found = answer(cluster, pool, cloud)
    assert isinstance(found, Survey), found
    return found


def given(cluster: Cluster, *orders: str, pool: Pool | None = None) -> dict[str, str]:
    """The instance by order."""
    asked = tuple([Order(OrderToken(f"c{name}"), RentalId(f"own-{name}")) for name in orders])
    reply = asyncio.run(ExistingCloud(cluster).ask(pool or own_pool(), Ask(asked, len(asked))))
    assert reply.refused == {}
    return {token[1:]: instance for token, instance in reply.launched.items()}


def left_out(cluster: Cluster, pool: Pool | None = None) -> dict[LeftOutWhy, str]:
    return {out.why: out.told for out in survey(cluster, pool).left_out}


def test_what_a_node_is_and_how_many_there_are_is_what_the_nodes_say() -> None:
    cluster = Cluster()
    cluster.node("a", labels={"topology.kubernetes.io/zone": "rack-1"})
    cluster.node("b", labels={"topology.kubernetes.io/zone": "rack-2"})
    found = survey(cluster)
    offering = found.offering
    assert (offering.gpu_type, offering.gpus_per_node, offering.group_size) == (H100, 8, 2)
    assert offering.zone == "rack-1,rack-2"
    assert ("team", "ml") in offering.traits.labels
    assert dict(offering.traits.room)["cpu"] == 96_000
    assert (found.instances, found.notices, found.left_out, found.target) == ((), (), (), None)


def test_each_order_is_given_a_node_that_nobody_holds_as_far_as_there_are_any() -> None:
    cluster = Cluster()
    for name in ("a", "b", "c"):
        cluster.node(name)
    cluster.rental("own-1", phase="Ready", instance="uid-a.cone", node="a")
    assert given(cluster, "two", "three", "four") == {"two": "uid-b.ctwo", "three": "uid-c.cthree"}


def test_a_node_whose_rental_has_ended_is_given_again_under_another_id() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.rental("own-1", phase="Ended", instance="uid-a.cone", node="a")
    assert given(cluster, "two") == {"two": "uid-a.ctwo"}
    assert survey(cluster).instances == ()


def test_what_rentals_hold_is_listed_since_they_were_made() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.rental("own-1", phase="Requested", instance="uid-a.cone")
    (machine,) = survey(cluster).instances
    assert (machine.id, machine.state, machine.node) == ("uid-a.cone", InstanceState.RUNNING, "a")
    assert (machine.launched, machine.segments, machine.provider_id) == (make.at(10), (), "")


def test_what_is_given_back_is_listed_as_ended_until_its_rental_has_ended() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.rental("own-1", phase="Draining", instance="uid-a.cone", node="a")
    cloud = ExistingCloud(cluster)
    asyncio.run(cloud.terminate(own_pool(), InstanceId("uid-a.cone"), Drained(None, make.at(1))))
    (machine,) = survey(cluster, cloud=cloud).instances
    assert (machine.state, machine.ended) == (InstanceState.ENDED, make.at(600))
    (machine,) = survey(cluster).instances  # another process, which gives it back again
    assert machine.state is InstanceState.RUNNING


def test_a_node_that_is_gone_has_ended_also_where_another_has_its_name() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.rental("own-1", phase="Ready", instance="uid-of-another.cone", node="a")
    cluster.rental("own-2", phase="Ready", instance="uid-b.ctwo", node="b")
    assert {machine.state for machine in survey(cluster).instances} == {InstanceState.ENDED}


@pytest.mark.parametrize(
    ("node", "why", "told"),
    [
        ({"cordoned": True}, LeftOutWhy.CORDONED, "Node z is cordoned: kubectl uncordon z"),
        ({"ready": False}, LeftOutWhy.NOT_READY, "Node z is not ready"),
        (
            {"told": {"GPUMissing": "True"}, "gpus": 7},
            LeftOutWhy.BROKEN_GPUS,
            "GPUs of Node z are broken (condition GPUMissing): it takes part again once the condition is gone",
        ),
        (
            {"told": {"GpuThermalWatch": "True"}},
            LeftOutWhy.BROKEN_GPUS,
            "GPUs of Node z may be broken (condition GpuThermalWatch): it takes part again once the condition is gone",
        ),
        (
            {"taint": "ToBeDeletedByClusterAutoscaler"},
            LeftOutWhy.GOES_AWAY,
            "Node z goes away (taint ToBeDeletedByClusterAutoscaler): it takes part again once that is gone",
        ),
        (
            {"kind": "NVIDIA-A100-SXM4-40GB"},
            LeftOutWhy.OTHER_GPUS,
            "Node z offers 8 × NVIDIA-A100-SXM4-40GB (nvidia.com/gpu), and the pool's nodes have 8 × "
            f"{H100}: give it a GPUPool of its own, by another label, or look at its device plugin",
        ),
        (
            {"gpus": 7},
            LeftOutWhy.OTHER_GPUS,
            f"Node z offers 7 × {H100} (nvidia.com/gpu), and the pool's nodes have 8 × {H100}: give it a GPUPool of "
            "its own, by another label, or look at its device plugin",
        ),
        (
            {"kind": ""},
            LeftOutWhy.OTHER_GPUS,
            "no label of Node z says what GPUs it has: set spec.existing.gpuType and gpusPerNode, or install GPU "
            "feature discovery",
        ),
    ],
)
def test_a_node_that_cannot_be_used_takes_no_part_and_is_told(node: dict[str, Any], why: LeftOutWhy, told: str) -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.node(name)
    cluster.node("z", **node)
    found = survey(cluster)
    assert found.offering.group_size == 2
    assert found.left_out == ((why, told),)
    assert given(cluster, "one", "two", "three") == {"one": "uid-a.cone", "two": "uid-b.ctwo"}


def test_what_is_held_of_it_runs_on_and_nothing_new_begins_there() -> None:
    cluster = Cluster()
    cluster.node("a", cordoned=True)
    cluster.rental("own-1", phase="Ready", instance="uid-a.cone", node="a")
    pool = own_pool(cloud=declared(kind=H100))
    found = survey(cluster, pool)
    assert [machine.state for machine in found.instances] == [InstanceState.RUNNING]
    (notice,) = found.notices
    assert (notice.instance, notice.certain, notice.why) == (
        "uid-a.cone",
        False,
        "Node a is cordoned: kubectl uncordon a",
    )


def test_a_held_node_that_has_lost_its_label_takes_nothing_new() -> None:
    cluster = Cluster()
    cluster.node("a", labels={"example.com/gpus": "lent"})
    cluster.node("b")
    cluster.rental("own-1", phase="Ready", instance="uid-a.cone", node="a")
    (notice,) = survey(cluster).notices
    assert notice.why == "Node a has not all labels of spec.existing.nodeSelector any more"


@pytest.mark.parametrize("named", [{"node": "z"}, {"providerId": "aws:///i-1"}])
def test_a_rented_node_is_its_own_pools(named: dict[str, Any]) -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.node("z", provider_id="aws:///i-1")
    cluster.rental("h100-1", pool="h100", own=False, phase="Ready", instance="i-1", **named)
    assert left_out(cluster) == {
        LeftOutWhy.RENTED: "Node z is rented by GPUPool h100 (GPURental h100-1): give spec.existing.nodeSelector "
        "(example.com/gpus=own) a label that rented Nodes lack"
    }


def test_a_node_that_may_be_that_of_a_machine_which_boots_is_left_alone() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.node("z", created=200.0)
    cluster.rental("h100-1", pool="h100", own=False, created=100.0, phase="Starting", instance="i-1")
    assert given(cluster, "one", "two") == {"one": "uid-a.cone"}
    cluster.rental("h100-1", pool="h100", own=False, created=100.0, phase="Ready", instance="i-1", node="other")
    assert given(cluster, "one", "two") == {"one": "uid-a.cone", "two": "uid-z.ctwo"}


@pytest.mark.parametrize(("created", "first"), [(1.0, "older"), (5.0, "older"), (9.0, None)])
def test_a_node_that_two_pools_select_is_the_older_ones(created: float, first: str | None) -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.node("b", labels={"rack": "3"})
    cluster.pool("older", created, {"rack": "3"})
    cluster.pool("own", 5.0, LABELS)
    found = left_out(cluster)
    if first is None:
        assert found == {}
    else:
        assert found == {
            LeftOutWhy.TWO_POOLS: "Node b is GPUPool older's, which is older and selects it too: change "
            "spec.existing.nodeSelector (example.com/gpus=own), or the Node's labels"
        }


def test_a_selector_that_selects_nothing_is_an_error_with_its_remedy() -> None:
    error = answer(Cluster())
    assert isinstance(error, InvalidRequest)
    assert error.message == (
        "spec.existing.nodeSelector (example.com/gpus=own) selects no Node: label Nodes so, or make the pool anew with "
        "others"
    )


def test_when_all_nodes_are_gone_what_they_were_is_as_on_record() -> None:
    cluster = Cluster()
    cluster.rental("own-1", phase="Ready", instance="uid-a.cone", node="a")
    found = survey(cluster, own_pool(offering=make.OFFERING))
    assert (found.offering.group_size, found.instances[0].state) == (0, InstanceState.ENDED)
    found = survey(cluster, own_pool(deleting=True))
    assert found.instances[0].state is InstanceState.ENDED


def test_of_unlike_nodes_those_count_that_are_on_record_and_else_those_of_which_there_are_most() -> None:
    cluster = Cluster()
    cluster.node("a", gpus=4)
    for name in ("b", "c"):
        cluster.node(name)
    assert survey(cluster).offering.gpus_per_node == 8
    recorded = make.OFFERING.__class__(H100, 4, "", "")
    assert survey(cluster, own_pool(offering=recorded)).offering.gpus_per_node == 4


def test_declared_gpus_need_no_label() -> None:
    cluster = Cluster()
    cluster.node("a", kind="")
    cluster.node("b", kind="", gpus=4)
    found = survey(cluster, own_pool(cloud=declared()))
    assert (found.offering.gpu_type, found.offering.gpus_per_node, found.offering.group_size) == ("H100", 8, 1)


def test_slices_count_by_the_resource_of_their_profile() -> None:
    cluster, kind = Cluster(), "NVIDIA-A100-SXM4-40GB"
    cluster.node("a", gpus=56, kind=kind, resource="nvidia.com/mig-1g.5gb")
    found = survey(cluster, own_pool(partition=Partition("1g.5gb", MigStrategy.MIXED)))
    assert (found.offering.gpu_type, found.offering.gpus_per_node, found.offering.group_size) == (kind, 8, 1)


def test_an_api_server_that_does_not_answer_is_each_pools_error() -> None:
    cluster = Cluster()
    cluster.failure = CallFailure.NOT_DONE
    assert isinstance(answer(cluster), CloudUnreachable)


@pytest.mark.parametrize(("price", "source"), [("0", "nodes that are there anyway"), ("3.5", "spec.price.hourly")])
def test_a_node_costs_what_its_owner_says(price: str, source: str) -> None:
    pool = own_pool(price_override=Price.parse(price))
    quote = asyncio.run(ExistingCloud(Cluster()).quote(pool))
    assert (quote.price, quote.worst, quote.billing_minimum_seconds, quote.source) == (
        Price.parse(price),
        Price.parse(price),
        0,
        source,
    )
    assert quote.as_of > after(make.T0, -1e9)


def test_a_preflight_says_how_many_take_part_and_why_others_do_not() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.node("b", cordoned=True)
    (finding,) = asyncio.run(ExistingCloud(cluster).preflight(own_pool()))
    told = "1 with example.com/gpus=own take part; Node b is cordoned: kubectl uncordon b"
    assert (finding.well, finding.message) == (True, told)
    (finding,) = asyncio.run(ExistingCloud(Cluster()).preflight(own_pool()))
    assert not finding.well
