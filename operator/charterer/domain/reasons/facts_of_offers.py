"""Facts of jobs to which no pool offers what they ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from charterer.domain.ids import BudgetId, PoolId
from charterer.domain.nodes.demands import LackingRoom, Misfit, OtherResource, UnmetLabel, UntoleratedTaint
from charterer.domain.reasons.fact import Fact
from charterer.domain.reasons.phrases import amount
from charterer.gpu_types import is_shared
from charterer.sentences import count, did_you_mean

_NAMED: Final = 5
"""Things that a pool's nodes lack which are named at most."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a job asks for: so many GPUs, of any of these types (empty: of all)."""

    least: int
    most: int
    gpu_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoPool(Fact):
    """There is no pool."""

    def sentence(self) -> str:
        return "there is no GPUPool: apply one"


@dataclass(frozen=True, slots=True)
class NoKnownPool(Fact):
    """No pool has a known price and size."""

    asked: Request

    def sentence(self) -> str:
        return f"{_nobody_offers(self.asked)}: no pool has a known price and size"


@dataclass(frozen=True, slots=True)
class OtherGpuTypes(Fact):
    """Pools have other GPU types."""

    asked: Request
    there: tuple[str, ...]

    def sentence(self) -> str:
        hints = dict.fromkeys(did_you_mean(asked, self.there) for asked in self.asked.gpu_types)
        meant = "".join(f" ({hint})" for hint in hints if hint)
        return f"{_nobody_offers(self.asked)}: pools have {', '.join(self.there)}{meant}"


@dataclass(frozen=True, slots=True)
class OnlySlices(Fact):
    """Only slices of these MIG profiles are there, or GPUs that jobs share, and it asks for whole GPUs."""

    asked: Request
    profiles: tuple[str, ...]

    def sentence(self) -> str:
        mig = " or ".join(profile for profile in self.profiles if not is_shared(profile))
        ways = [f"name {mig} in spec.gpus.slices"] if mig else []
        if any(is_shared(profile) for profile in self.profiles):
            ways.append("set spec.gpus.shared")
        return (
            f"{_nobody_offers(self.asked)} that is whole: {' or '.join(ways)} if the job fits "
            "into the memory, or add a "
            "pool without spec.partition and spec.sharing"
        )


@dataclass(frozen=True, slots=True)
class OnlySpot(Fact):
    """Only nodes fit that the cloud may take back."""

    asked: Request

    def sentence(self) -> str:
        return (
            f"{_nobody_offers(self.asked)} that the cloud cannot take back: set spec.spotPolicy to "
            "Allowed, or add a pool "
            "of on-demand nodes"
        )


@dataclass(frozen=True, slots=True)
class NodesDoNotFit(Fact):
    """No pool's nodes take the pods of its template. ``pool``: the one that lacks least; ``why``: what it lacks.

    ``others``: how many more pools lack something.
    """

    asked: Request
    pool: PoolId
    why: tuple[Misfit, ...]
    others: int

    def sentence(self) -> str:
        others = (
            f"; {count(self.others, 'other pool')} {'lacks' if self.others == 1 else 'lack'} as much or more"
            if self.others
            else ""
        )
        lacking = misfits_in_words(self.why)
        return f"{_nobody_offers(self.asked)} on nodes that take its pods: of GPUPool {self.pool}, {lacking}{others}"


@dataclass(frozen=True, slots=True)
class PodsDoNotFit(Fact):
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

    def sentence(self) -> str:
        asked = f"{count(self.pods, 'pod')} of {count(self.each, 'GPU')}"
        if self.nodes is None:
            return (
                f"no GPUPool has nodes for pods of {count(self.each, 'GPU')}: a node of GPUPool {self.pool} has "
                f"{self.size}; ask for fewer GPUs in each pod, or add a pool of larger nodes"
            )
        return (
            f"no GPUPool takes {asked}: in GPUPool {self.pool} they need "
            f"{count(self.nodes, 'node')} of {self.size}, and "
            f"spec.maxNodes is {self.most}: raise it, or ask for fewer"
        )


@dataclass(frozen=True, slots=True)
class PoolsTooSmall(Fact):
    """The largest pool that has the type is too small."""

    asked: Request
    pool: PoolId
    gpus: int
    gpu_type: str

    def sentence(self) -> str:
        largest = f"the largest pool is {self.pool} with {count(self.gpus, 'GPU')} of type {self.gpu_type}"
        return f"{_nobody_offers(self.asked)}: {largest}"


@dataclass(frozen=True, slots=True)
class NothingFits(Fact):
    """No pool fits for another reason."""

    asked: Request

    def sentence(self) -> str:
        return f"{_nobody_offers(self.asked)}: widen spec.gpus or spec.gpuTypes, or add a pool"


@dataclass(frozen=True, slots=True)
class PoolTrouble(Fact):
    """A pool whose price or size is not known. ``words``: what its cloud answers; empty: it tells no price."""

    pool: PoolId
    words: str

    def sentence(self) -> str:
        why = " cannot be used now, as its conditions say"
        if not self.words:
            why = ": the cloud has told no price of a node: set spec.price.hourly"
        return f"GPUPool {self.pool}{why}"


@dataclass(frozen=True, slots=True)
class PaidByOthers(Fact):
    """Pools of which another budget pays for all nodes, used or not: by name, who pays."""

    pools: tuple[tuple[PoolId, BudgetId], ...]

    def sentence(self) -> str:
        each = [
            f"GPUPool {pool} is committed to GPUBudget {budget} (spec.price.committed)" for pool, budget in self.pools
        ]
        return f"{'; '.join(each)}: no other budget's jobs run there"


def _nobody_offers(asked: Request) -> str:
    gpus = count(asked.least, "GPU") if asked.least == asked.most else f"{asked.least} to {asked.most} GPUs"
    types = f" of type {', '.join(asked.gpu_types)}" if asked.gpu_types else ""
    return f"no GPUPool with a known price offers {gpus}{types}"


def misfits_in_words(misfits: Sequence[Misfit]) -> str:
    """What a pool's nodes lack for the pods of a template, and what to do about it."""
    return "; ".join(_misfit(misfit) for misfit in misfits[:_NAMED])


def _misfit(misfit: Misfit) -> str:
    match misfit:
        case OtherResource(asked, there):
            return (
                f"the GPUs of its nodes are {there}, and the job's are {asked}: add a GPUPool with spec.resource "
                f"{asked}, or correct spec.resource of the job or the limits of its first container"
            )
        case UntoleratedTaint(taint):
            return f"nodes have the taint {taint.text}: let spec.template tolerate it, or choose another pool"
        case LackingRoom(resource, asked, there):
            has = f"a node has {amount(resource, there)}" if there else "no node is known to have it"
            say = "" if there else ", or say it in spec.resources of the GPUPool"
            return f"{has}, and a pod asks for {amount(resource, asked)} of {resource}: ask for less{say}"
        case UnmetLabel(requirement, there):
            if requirement.key == "karpenter.sh/nodepool":
                return (
                    f"nodes belong to no NodePool of Karpenter, and spec.template asks for {requirement.text}: take it "
                    "out of nodeSelector or affinity"
                )
            if requirement.volume:
                here = f"nodes have {requirement.key}={' or '.join(there) or 'no value'}"
                return (
                    f"{here}, and {requirement.volume}, which spec.template names, can be attached only where "
                    f"{requirement.text}: use a volume there, or add a GPUPool where the volume is"
                )
            if there:
                has = f"nodes have {requirement.key}={' or '.join(there)}"
                remedy = ", or add a GPUPool all of whose nodes have what it asks for" if len(there) > 1 else ""
            else:
                has = f"no node is known to have the label {requirement.key}"
                remedy = ", or say in spec.labels of the GPUPool that its nodes have it"
            return f"{has}, and spec.template asks for {requirement.text}: correct nodeSelector or affinity{remedy}"
