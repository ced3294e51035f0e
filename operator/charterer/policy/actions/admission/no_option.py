"""Why no pool has what a job asks for, in words, and what would have to change."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from charterer.domain.ids import PoolId
from charterer.domain.job import Job, SpotPolicy
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.pool import CapacityType, Pool
from charterer.policy.actions.budget_plan import BudgetPlan
from charterer.policy.jobs.predicates import reason
from charterer.policy.options.pool_selection import left_out
from charterer.sentences import count, did_you_mean, names

_TOLD = 3
"""Pools whose trouble is told: a cloud's words may be long."""
_NO_PRICE = "the cloud has told no price of a node: set spec.price.hourly"


def no_option(plan: BudgetPlan, job: Job) -> Reason:
    """The reason of a job that no pool of its budget fits: ``NotAskedYet`` while a pool's cloud may still offer it."""
    snapshot, budget = plan.snapshot, plan.solution.budget
    pools, others = snapshot.pools_of(budget), left_out(budget, snapshot.pools)
    if others and not pools:
        return reason(ReasonCode.NO_OPTION, others)
    unknown = {name: pool for name, pool in pools.items() if not (_is_known(pool) or pool.closed_because)}
    asked = [name for name, pool in unknown.items() if name not in snapshot.surveys and not pool.trouble]
    if asked:
        text = f"the cloud has not answered yet what it offers in GPUPool {names(asked)}, and no other pool fits"
        return reason(ReasonCode.NOT_ASKED_YET, text)
    told = sorted(unknown.items())[:_TOLD]
    troubles = "".join(f"; GPUPool {name}: {pool.trouble or _NO_PRICE}" for name, pool in told)
    left = f"; {others}" if others else ""
    return reason(ReasonCode.NO_OPTION, f"{_why(job, pools)}{troubles}{left}")


def _is_known(pool: Pool) -> bool:
    return pool.offering is not None and pool.quote is not None


def _why(job: Job, pools: Mapping[PoolId, Pool]) -> str:
    """The request of the job, and the offers of pools that its budget may rent."""
    widths = job.widths
    gpus = count(widths.min, "GPU") if widths.min == widths.max else f"{widths.min} to {widths.max} GPUs"
    types = f" of type {', '.join(job.gpu_types)}" if job.gpu_types else ""
    text = f"no GPUPool with a known price offers {gpus}{types}"
    offers = [
        (pool.offering.gpu_type, pool.offering.gpus_per_node * pool.max_nodes, pool)
        for pool in pools.values()
        if pool.offering is not None and pool.quote is not None and not pool.deleting
    ]
    fitting = [offer for offer in offers if not job.gpu_types or offer[0] in job.gpu_types]
    if not pools:
        return "there is no GPUPool: apply one"
    if not offers:
        return f"{text}: no pool has a known price and size"
    if not fitting:
        there = {gpu_type for gpu_type, _, _ in offers}
        return f"{text}: pools have {', '.join(sorted(there))}{_meant(job.gpu_types, there)}"
    if job.spot is not SpotPolicy.ALLOWED:
        fitting = [offer for offer in fitting if offer[2].capacity_type is not CapacityType.SPOT]
    if not fitting:
        return (
            f"{text} that the cloud cannot take back: set spec.spotPolicy to Allowed, or add a pool of on-demand nodes"
        )
    gpu_type, most, pool = max(fitting, key=lambda offer: offer[1])
    if most < widths.min:
        return f"{text}: the largest pool is {pool.id} with {count(most, 'GPU')} of type {gpu_type}"
    return f"{text}: widen spec.gpus or spec.gpuTypes, or add a pool"


def _meant(asked: Collection[str], there: Collection[str]) -> str:
    """The types that a misspelled one may have meant."""
    return "".join(f" ({hint})" for hint in dict.fromkeys(did_you_mean(name, there) for name in asked) if hint)
