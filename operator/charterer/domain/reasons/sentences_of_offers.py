"""Sentences of jobs to which no pool offers what they ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from charterer.domain.nodes.demands import LackingRoom, Misfit, OtherResource, UnmetLabel, UntoleratedTaint
from charterer.domain.reasons import facts_of_offers as of
from charterer.domain.reasons.phrases import amount
from charterer.domain.reasons.room import tell
from charterer.gpu_types import is_shared
from charterer.sentences import count, did_you_mean

_NAMED: Final = 5
"""Things that a pool's nodes lack which are named at most."""


@tell.register
def _(_: of.NoPool) -> str:
    return "there is no GPUPool: apply one"


def _nobody_offers(asked: of.Request) -> str:
    gpus = count(asked.least, "GPU") if asked.least == asked.most else f"{asked.least} to {asked.most} GPUs"
    types = f" of type {', '.join(asked.gpu_types)}" if asked.gpu_types else ""
    return f"no GPUPool with a known price offers {gpus}{types}"


@tell.register
def _(none: of.NoKnownPool) -> str:
    return f"{_nobody_offers(none.asked)}: no pool has a known price and size"


@tell.register
def _(others: of.OtherGpuTypes) -> str:
    hints = dict.fromkeys(did_you_mean(asked, others.there) for asked in others.asked.gpu_types)
    meant = "".join(f" ({hint})" for hint in hints if hint)
    return f"{_nobody_offers(others.asked)}: pools have {', '.join(others.there)}{meant}"


@tell.register
def _(slices: of.OnlySlices) -> str:
    mig = " or ".join(profile for profile in slices.profiles if not is_shared(profile))
    ways = [f"name {mig} in spec.gpus.slices"] if mig else []
    if any(is_shared(profile) for profile in slices.profiles):
        ways.append("set spec.gpus.shared")
    return (
        f"{_nobody_offers(slices.asked)} that is whole: {' or '.join(ways)} if the job fits into the memory, or add a "
        "pool without spec.partition and spec.sharing"
    )


@tell.register
def _(spot: of.OnlySpot) -> str:
    return (
        f"{_nobody_offers(spot.asked)} that the cloud cannot take back: set spec.spotPolicy to Allowed, or add a pool "
        "of on-demand nodes"
    )


@tell.register
def _(none: of.NodesDoNotFit) -> str:
    others = (
        f"; {count(none.others, 'other pool')} {'lacks' if none.others == 1 else 'lack'} as much or more"
        if none.others
        else ""
    )
    lacking = misfits_in_words(none.why)
    return f"{_nobody_offers(none.asked)} on nodes that take its pods: of GPUPool {none.pool}, {lacking}{others}"


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


@tell.register
def _(pods: of.PodsDoNotFit) -> str:
    asked = f"{count(pods.pods, 'pod')} of {count(pods.each, 'GPU')}"
    if pods.nodes is None:
        return (
            f"no GPUPool has nodes for pods of {count(pods.each, 'GPU')}: a node of GPUPool {pods.pool} has "
            f"{pods.size}; ask for fewer GPUs in each pod, or add a pool of larger nodes"
        )
    return (
        f"no GPUPool takes {asked}: in GPUPool {pods.pool} they need {count(pods.nodes, 'node')} of {pods.size}, and "
        f"spec.maxNodes is {pods.most}: raise it, or ask for fewer"
    )


@tell.register
def _(small: of.PoolsTooSmall) -> str:
    largest = f"the largest pool is {small.pool} with {count(small.gpus, 'GPU')} of type {small.gpu_type}"
    return f"{_nobody_offers(small.asked)}: {largest}"


@tell.register
def _(nothing: of.NothingFits) -> str:
    return f"{_nobody_offers(nothing.asked)}: widen spec.gpus or spec.gpuTypes, or add a pool"


@tell.register
def _(trouble: of.PoolTrouble) -> str:
    why = " cannot be used now, as its conditions say"
    if not trouble.words:
        why = ": the cloud has told no price of a node: set spec.price.hourly"
    return f"GPUPool {trouble.pool}{why}"


@tell.register
def _(paid: of.PaidByOthers) -> str:
    each = [f"GPUPool {pool} is committed to GPUBudget {budget} (spec.price.committed)" for pool, budget in paid.pools]
    return f"{'; '.join(each)}: no other budget's jobs run there"
