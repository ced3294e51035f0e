"""Facts about the option that a job has or moves to, and about jobs for which no pool fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from charterer.domain.ids import BudgetId, PoolId, RentalId
from charterer.domain.money import ZERO, Money
from charterer.domain.node_demands import LackingRoom, Misfit, OtherResource, UnmetLabel, UntoleratedTaint
from charterer.domain.option import Option
from charterer.domain.reasons.fact import Fact
from charterer.domain.reasons.phrases import amount, format_duration, name
from charterer.domain.time import Instant, format_minute
from charterer.gpu_types import is_shared
from charterer.sentences import count, did_you_mean

# Facts about the option that a job has or moves to.


@dataclass(frozen=True, slots=True)
class UnknownSpeed(Fact):
    """The job has ``option``, and other options' speeds are unknown. ``left``: assumed seconds of remaining work."""

    option: Option
    seconds: float
    cost: Money
    left: float

    def sentence(self) -> str:
        return (
            f"{name(self.option)}: {format_duration(self.seconds)} for {self.cost} if "
            f"{format_duration(self.left)} of work are "
            "left; no speedup curve is known yet"
        )


@dataclass(frozen=True, slots=True)
class Faster:
    """A faster option, which saves ``saved`` seconds for ``more`` dollars: ``hourly`` dollars for each hour saved.

    ``pays``: the most that the budget pays for an hour saved.
    """

    option: Option
    saved: float
    more: Money
    hourly: Money
    pays: Money


@dataclass(frozen=True, slots=True)
class Chosen(Fact):
    """The job has ``option``, which takes ``seconds`` until the job's end and costs ``cost``.

    ``faster``: the next faster option; None without one. ``fastest``: whether the job's menu has no faster option. If
    the menu no longer contains ``option``, ``faster`` is None and ``fastest`` False.
    """

    option: Option
    seconds: float
    cost: Money
    faster: Faster | None
    fastest: bool

    def sentence(self) -> str:
        faster = "" if self.faster is None else f"; {_faster(self.faster)}"
        fastest = "; nothing on its menu is faster" if self.fastest else ""
        return f"{name(self.option)}: {format_duration(self.seconds)} for {self.cost}{faster}{fastest}"


@dataclass(frozen=True, slots=True)
class MovePays(Fact):
    """The job moves from ``here``, where ``left`` seconds remain, to ``to``.

    The move saves ``saved`` seconds (negative: takes more) and costs ``cost`` (negative: saves). ``pays``: what the
    budget pays for an hour saved; None for any price.
    """

    here: Option
    left: float
    to: Option
    saved: float
    cost: Money
    pays: Money | None

    def sentence(self) -> str:
        if self.saved < 0:
            saves = f"save {-self.cost} for {format_duration(-self.saved)} more"
        else:
            dollars = f"and {-self.cost}" if self.cost < ZERO else f"for {self.cost}"
            saves = f"save {format_duration(self.saved)} {dollars}"
        pays = "any price" if self.pays is None else self.pays
        return (
            f"with {format_duration(self.left)} left on {name(self.here)}, {name(self.to)} {saves}, restart included; "
            f"the budget pays {pays} per hour saved"
        )


@dataclass(frozen=True, slots=True)
class MakesRoom(Fact):
    """The job moves from ``here`` to ``to`` for waiting jobs. The move delays its end by ``later`` seconds and adds
    ``cost``."""

    to: Option
    here: Option
    later: float
    cost: Money

    def sentence(self) -> str:
        cost = f"{max(self.cost, -self.cost)} {'more' if self.cost > ZERO else 'less'}"
        return (
            f"{name(self.to)} instead of {name(self.here)}, to make room for jobs that wait: this job ends "
            f"{format_duration(self.later)} later for {cost}, and their time is worth more"
        )


@dataclass(frozen=True, slots=True)
class NodeEmptied(Fact):
    """The job moves to another node, so that its present node can be given back."""

    option: Option
    here: RentalId
    to: RentalId
    saved: Money

    def sentence(self) -> str:
        return (
            f"{name(self.option)}: from {self.here} to {self.to}, so that {self.here} can be given back, which saves "
            f"{self.saved}, restarts included"
        )


@dataclass(frozen=True, slots=True)
class SlowNode(Fact):
    """The job moves away from ``here``, where its pod ``pod`` computes ``times`` times as long as the other pods."""

    option: Option
    here: RentalId
    pod: int | None
    times: float
    seconds: float
    saved: Money

    def sentence(self) -> str:
        return (
            f"{name(self.option)}: another node instead of {self.here}, on which pod {self.pod} "
            f"computes {self.times:.2f} "
            f"times as long as the others; that saves {format_duration(self.seconds)} and "
            f"{self.saved} in time and money, "
            "the restart included"
        )


@dataclass(frozen=True, slots=True)
class HadNow(Fact):
    """An option that the job could have now. The option would end ``later`` seconds later and cost ``more`` more."""

    option: Option
    later: float
    more: Money

    def sentence(self) -> str:
        when = f"{format_duration(abs(self.later))} {'later' if self.later >= 0.0 else 'earlier'}"
        cost = f"{max(self.more, -self.more)} {'more' if self.more > ZERO else 'less'}"
        return f"on {name(self.option)}, which it could have now, it would end {when} for {cost}"


@dataclass(frozen=True, slots=True)
class WholeNode(Fact):
    """Whole nodes are paid for. With the option ``instead``, the nodes of all jobs in sight would cost ``saved`` more
    (negative: less), and this job would end ``sooner`` seconds later (negative: sooner)."""

    instead: Option
    saved: Money
    sooner: float

    def sentence(self) -> str:
        cost = f"{max(self.saved, -self.saved)} {'more' if self.saved > ZERO else 'less'}"
        when = f"{format_duration(abs(self.sooner))} {'later' if self.sooner >= 0.0 else 'sooner'}"
        return (
            f"nodes are paid for as a whole: with {name(self.instead)} those of all jobs in sight "
            f"would cost {cost}, and "
            f"this job would end {when}"
        )


@dataclass(frozen=True, slots=True)
class RestartedAtOnce(Fact):
    """The job restarts at once on the nodes that exist."""

    option: Option

    def sentence(self) -> str:
        return f"restarted at once on {name(self.option)}"


@dataclass(frozen=True, slots=True)
class RunsMeanwhile(Fact):
    """The job runs on the ready nodes until all nodes for ``wanted`` are ready."""

    option: Option
    wanted: Option

    def sentence(self) -> str:
        return f"it runs on {name(self.option)} until the other nodes for {name(self.wanted)} are ready"


@dataclass(frozen=True, slots=True)
class TargetKept(Fact):
    """The job's target is expected to be met."""

    target: Instant

    def sentence(self) -> str:
        return f"target {format_minute(self.target)}"


@dataclass(frozen=True, slots=True)
class TargetNotPaid(Fact):
    """The budget does not pay for the job's target. The fastest path that the budget pays for ends at ``end``."""

    target: Instant
    end: Instant

    def sentence(self) -> str:
        return (
            f"target {format_minute(self.target)} cannot be met with what is left of the budget: the fastest path "
            f"that it pays for ends {format_minute(self.end)}"
        )


@dataclass(frozen=True, slots=True)
class TargetOutOfReach(Fact):
    """The job's target is ignored, because even the fastest path ends much later, at ``end``."""

    target: Instant
    end: Instant

    def sentence(self) -> str:
        return (
            f"target {format_minute(self.target)} cannot be met, so the job is planned as one without a target: "
            f"the fastest path ends {format_minute(self.end)}"
        )


@dataclass(frozen=True, slots=True)
class TargetMissed(Fact):
    """The job's target is missed by little: the fastest path ends at ``end``."""

    target: Instant
    end: Instant

    def sentence(self) -> str:
        return f"target {format_minute(self.target)} cannot be met: the fastest path ends {format_minute(self.end)}"


TargetFact = TargetKept | TargetNotPaid | TargetOutOfReach | TargetMissed
"""The expectation about a job's target."""


def _faster(way: Faster) -> str:
    return (
        f"{name(way.option)} would save {format_duration(way.saved)} for {way.more}, {way.hourly} per hour saved, "
        f"and the budget pays up to {way.pays}"
    )


# Facts about jobs for which no pool fits.


_NAMED: Final = 5
"""Maximum number of misfits in a sentence about a pool."""


@dataclass(frozen=True, slots=True)
class Request:
    """The request of a job: ``least`` to ``most`` GPUs of any of these types (empty: of any type)."""

    least: int
    most: int
    gpu_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoPool(Fact):
    """No pool exists."""

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
    """The pools have other GPU types than the job asks for."""

    asked: Request
    there: tuple[str, ...]

    def sentence(self) -> str:
        hints = dict.fromkeys(did_you_mean(asked, self.there) for asked in self.asked.gpu_types)
        meant = "".join(f" ({hint})" for hint in hints if hint)
        return f"{_nobody_offers(self.asked)}: pools have {', '.join(self.there)}{meant}"


@dataclass(frozen=True, slots=True)
class OnlySlices(Fact):
    """The job asks for whole GPUs, but pools have only slices of these MIG profiles, or GPUs that jobs share."""

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
    """The only fitting nodes are nodes that the cloud may take back."""

    asked: Request

    def sentence(self) -> str:
        return (
            f"{_nobody_offers(self.asked)} that the cloud cannot take back: set spec.spotPolicy to "
            "Allowed, or add a pool "
            "of on-demand nodes"
        )


@dataclass(frozen=True, slots=True)
class NodesDoNotFit(Fact):
    """No pool's nodes take the pods of the job's template. ``pool``: the best-fitting pool. ``why``: its misfits.

    ``others``: the number of other pools with misfits.
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
    """The pods of an object do not fit on the nodes of any pool. ``pool``: the best-fitting pool.

    ``pods``: the object's least number of pods, of ``each`` GPUs. ``size``: GPUs of a node of the pool. ``nodes``:
    nodes that the pods need; None if a node takes no pod. ``most``: nodes that the pool may have.
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
    """The largest pool with the GPU type is too small."""

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
    """A pool of unknown price or size. ``words``: the cloud's error; empty if the only problem is a missing price."""

    pool: PoolId
    words: str

    def sentence(self) -> str:
        why = " cannot be used now, as its conditions say"
        if not self.words:
            why = ": the cloud has told no price of a node: set spec.price.hourly"
        return f"GPUPool {self.pool}{why}"


@dataclass(frozen=True, slots=True)
class PaidByOthers(Fact):
    """Pools to which other budgets are committed: name of the pool, the budget, and the field that declares it."""

    pools: tuple[tuple[PoolId, BudgetId, str], ...]

    def sentence(self) -> str:
        each = [f"GPUPool {pool} is committed to GPUBudget {budget} ({field})" for pool, budget, field in self.pools]
        return f"{'; '.join(each)}: no other budget's jobs run there"


def _nobody_offers(asked: Request) -> str:
    gpus = count(asked.least, "GPU") if asked.least == asked.most else f"{asked.least} to {asked.most} GPUs"
    types = f" of type {', '.join(asked.gpu_types)}" if asked.gpu_types else ""
    return f"no GPUPool with a known price offers {gpus}{types}"


def misfits_in_words(misfits: Sequence[Misfit]) -> str:
    """The misfits of a pool's nodes for the pods of a template, each with its remedy."""
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
