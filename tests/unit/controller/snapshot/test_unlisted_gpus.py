"""On a pool's nodes, the pool says which extended resource is GPUs; elsewhere nothing of it is counted."""

from __future__ import annotations

from dataclasses import replace

from charterer.api.decode import ForeignPod
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.observe import observe
from charterer.domain.ids import NodeName
from tests import factory as make
from tests.unit.controller.snapshot.test_offers import NOW, STATE

NPU, NIC = "example.com/npu", "example.com/nic"


def foreign(device: str, *pods: ForeignPod) -> int:
    """GPUs that strangers hold on the rented node of a pool with these devices."""
    pool = make.pool(device=device)
    node = make.node("n1", gpus=8, others={NPU: 8})
    rental = make.rental(machine=make.instance(), pool=pool.id, node=node.name)
    state = replace(
        STATE,
        pools={ObjectKey("", pool.id): pool},
        rentals={ObjectKey("", rental.id): rental},
        nodes={ObjectKey("", node.name): node},
        pods={ObjectKey("other", f"p{at}"): pod for at, pod in enumerate(pods)},
    )
    return observe(state, NOW).nodes[node.name].foreign_gpus


def test_strangers_hold_what_the_nodes_pool_calls_gpus_and_nothing_else() -> None:
    stranger = ForeignPod(NodeName("n-n1"), 2, ((NIC, 5), (NPU, 3)))
    elsewhere = ForeignPod(NodeName("n2"), 0, ((NPU, 4),))
    assert foreign("nvidia.com/gpu", stranger, elsewhere) == 2
    assert foreign(NPU, stranger, elsewhere) == 3
    assert foreign(NIC, stranger, elsewhere) == 5
