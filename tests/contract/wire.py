"""What the contract tests of every SDK need: the way of its calls, a cluster's uid, and a survey of one pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from charterer.domain.ids import PoolId
from charterer.domain.node_demands import NodeTraits
from charterer.domain.pool import Pool, Survey
from charterer.domain.time import Instant
from charterer.providers.provider import NONE_KNOWN, Drained, KnownMachines, Provider

EMPTY = Drained(node=None, checked=Instant(0))
CLUSTER = "11111111-2222-3333-4444-555555555555"

C = TypeVar("C")
A = TypeVar("A")


class Wire(Generic[C, A]):
    """Sends calls with clients that all tests of a worker share; ``sent`` has what went out for this test."""

    def __init__(self, clients: Callable[[C, dict[str, Any]], A]) -> None:
        self._clients = clients
        self.sent: list[C] = []

    def __call__(self, call: C, params: dict[str, Any]) -> A:
        self.sent.append(call)
        return self._clients(call, params)


async def no_pause(seconds: float) -> None:
    """Do not wait."""


async def own_cluster(pool: PoolId) -> str:
    """The uid of this cluster."""
    return CLUSTER


async def surveyed(provider: Provider, pool: Pool, known: KnownMachines = NONE_KNOWN) -> Survey:
    """The pool's survey; its error is raised."""
    answer = (await provider.survey([pool], known))[pool.id]
    if not isinstance(answer, Survey):
        raise answer
    return answer


def of_machine(cpus: int, mebibytes: int, *labels: tuple[str, str]) -> NodeTraits:
    """What is known of a node that has no more than its machine's processors and memory."""
    room = (("cpu", cpus * 1000), ("memory", mebibytes * 2**20 * 1000))
    return NodeTraits(tuple(sorted(labels)), (), room)
