"""What surveys tell of nodes before one is there, with no call for it."""

from __future__ import annotations

from typing import Any

import pytest

from charterer.domain.node_demands import NodeTaint, NodeTraits
from charterer.domain.pool import CapacityType
from tests.contract import gcp_pools
from tests.contract.aws_pools import GROUP, TYPE
from tests.contract.conftest import OpenAws, OpenAzure, OpenGcp, OpenMarket
from tests.contract.wire import of_machine

AWS, AZURE = "k8s.io/cluster-autoscaler/node-template", "k8s.io_cluster-autoscaler_node-template"
PRIORITY = "kubernetes.azure.com/scalesetpriority"
L4 = "g2-standard-8"
KUBE_ENV = (
    "AUTOSCALER_ENV_VARS: kube_reserved=cpu=90m,memory=2Gi;node_labels=cloud.google.com/gke-accelerator=nvidia-l4,"
    "cloud.google.com/gke-spot=true;node_taints=dedicated=ml:NoSchedule;os=linux;arch=amd64\n"
)


async def test_an_auto_scaling_groups_tags_tell_of_its_nodes_though_no_instance_has_them(aws: OpenAws) -> None:
    m = aws(GROUP)
    m.account.groups["gpu-group"].notes = {
        f"{AWS}/label/team": "research",
        f"{AWS}/taint/dedicated": "ml:NoExecute",
        f"{AWS}/resources/vpc.amazonaws.com/efa": "4",
        "eks:nodegroup-name": "gpu",
    }
    traits = (await m.survey()).offering.traits
    labels = {"eks.amazonaws.com/capacityType": "ON_DEMAND", "eks.amazonaws.com/nodegroup": "gpu", "team": "research"}
    assert dict(traits.labels) == labels
    assert traits.taints == (NodeTaint("dedicated", "ml", "NoExecute"),)
    assert traits.room == (*of_machine(96, 1_179_648).room, ("vpc.amazonaws.com/efa", 4_000))
    assert (await m.ask("one")).launched


async def test_of_several_instance_types_the_smallest_bounds_what_a_pod_may_ask(aws: OpenAws) -> None:
    m = aws(GROUP)
    m.account.groups["gpu-group"].types = ("g5.24xlarge", "g5.12xlarge")
    assert (await m.survey()).offering.traits == of_machine(48, 196_608)
    m.account.groups["gpu-group"].types = (TYPE,)
    m.account.clock.advance(301)
    assert (await m.survey()).offering.traits == of_machine(96, 1_179_648)


@pytest.mark.parametrize("cloud", [gcp_pools.GROUP, gcp_pools.TEMPLATE], ids=["group", "template"])
async def test_an_instance_template_tells_what_gke_wrote_into_it(gcp: OpenGcp, cloud: Any) -> None:
    m = gcp(cloud)
    m.project.add_template("gpu", L4, metadata={"kube-env": KUBE_ENV, "cluster-name": "prod"})
    traits = (await m.survey()).offering.traits
    assert {key: value for key, value in traits.labels if key.startswith("cloud.google.com/")} == {
        "cloud.google.com/gke-accelerator": "nvidia-l4",
        "cloud.google.com/gke-spot": "true",
    }
    assert traits.taints == (NodeTaint("dedicated", "ml", "NoSchedule"),)
    assert traits.room == (("cpu", 8_000 - 90), ("memory", (32 - 2) * 2**30 * 1000))


@pytest.mark.parametrize("kind", ["uniform", "flexible"])
async def test_a_scale_sets_tags_tell_of_its_nodes(azure_market: OpenAzure, kind: str) -> None:
    m = azure_market(kind)
    m.scale_set.tags |= {
        f"{AZURE}_label_example.com_team": "a",
        f"{AZURE}_taint_dedicated": "ml:NoSchedule",
        "x": "y",
    }
    traits = (await m.survey()).offering.traits
    assert traits == NodeTraits(
        (("example.com/team", "a"),),
        (NodeTaint("dedicated", "ml", "NoSchedule"),),
        of_machine(96, 900 * 1024).room,
    )


async def test_a_node_pools_labels_and_taints_are_told_and_stay_when_it_grows(azure_market: OpenAzure) -> None:
    m = azure_market("aks", CapacityType.SPOT)
    [cluster] = m.sub.clusters.values()
    cluster.pools["gpu"].taints = ("dedicated=ml:NoSchedule",)
    told = (await m.survey()).offering.traits
    assert dict(told.labels) == {"team": "a", "kubernetes.azure.com/mode": "user", PRIORITY: "spot"}
    assert told.taints == (NodeTaint("dedicated", "ml", "NoSchedule"), NodeTaint(PRIORITY, "spot", "NoSchedule"))
    await m.ask(1, "one")
    assert (await m.survey()).offering.traits == told


async def test_a_group_of_the_fake_cloud_tells_what_it_declares(market: OpenMarket) -> None:
    taints = [{"key": "dedicated", "value": "ml"}, {"key": "rather-not", "effect": "PreferNoSchedule"}]
    m = await market(labels={"team": "a"}, taints=taints, resources={"example.com/port": "2"}, cpu="8", memory="64Gi")
    assert (await m.survey()).offering.traits == NodeTraits(
        (("team", "a"),),
        (NodeTaint("dedicated", "ml", "NoSchedule"),),
        (("cpu", 8_000), ("example.com/port", 2_000), ("memory", 64 * 2**30 * 1000), ("pods", 110_000)),
    )
