"""Facts of jobs to which no pool offers what they ask for."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.ids import BudgetId, PoolId
from charterer.domain.nodes.demands import Misfit


@dataclass(frozen=True, slots=True)
class Request:
    """What a job asks for: so many GPUs, of any of these types (empty: of all)."""

    least: int
    most: int
    gpu_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoPool:
    """There is no pool."""


@dataclass(frozen=True, slots=True)
class NoKnownPool:
    """No pool has a known price and size."""

    asked: Request


@dataclass(frozen=True, slots=True)
class OtherGpuTypes:
    """Pools have other GPU types."""

    asked: Request
    there: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OnlySlices:
    """Only slices of these MIG profiles are there, or GPUs that jobs share, and it asks for whole GPUs."""

    asked: Request
    profiles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OnlySpot:
    """Only nodes fit that the cloud may take back."""

    asked: Request


@dataclass(frozen=True, slots=True)
class NodesDoNotFit:
    """No pool's nodes take the pods of its template. ``pool``: the one that lacks least; ``why``: what it lacks.

    ``others``: how many more pools lack something.
    """

    asked: Request
    pool: PoolId
    why: tuple[Misfit, ...]
    others: int


@dataclass(frozen=True, slots=True)
class PodsDoNotFit:
    """The pods of an object do not go onto the nodes of any pool. ``pool``: the one that lacks least.

    ``pods``, of ``each`` GPUs: its fewest. ``size``: GPUs of a node there; ``nodes``: how many they need of the
    ``most`` that the pool may have; None: a node does not take one.
    """

    pool: PoolId
    pods: int
    each: int
    size: int
    nodes: int | None
    most: int


@dataclass(frozen=True, slots=True)
class PoolsTooSmall:
    """The largest pool that has the type is too small."""

    asked: Request
    pool: PoolId
    gpus: int
    gpu_type: str


@dataclass(frozen=True, slots=True)
class NothingFits:
    """No pool fits for another reason."""

    asked: Request


@dataclass(frozen=True, slots=True)
class PoolTrouble:
    """A pool whose price or size is not known. ``words``: what its cloud answers; empty: it tells no price."""

    pool: PoolId
    words: str


@dataclass(frozen=True, slots=True)
class PaidByOthers:
    """Pools of which another budget pays for all nodes, used or not: by name, who pays."""

    pools: tuple[tuple[PoolId, BudgetId], ...]


OfferFact = (
    NoPool
    | NoKnownPool
    | OtherGpuTypes
    | OnlySlices
    | OnlySpot
    | NodesDoNotFit
    | PodsDoNotFit
    | PoolsTooSmall
    | NothingFits
    | PoolTrouble
    | PaidByOthers
)
"""What no pool offers to a job, and why."""
