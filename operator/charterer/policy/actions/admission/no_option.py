"""Why no pool has what a job asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from charterer.domain.ids import PoolId
from charterer.domain.job import Job, SpotPolicy
from charterer.domain.jobs.widths import Widths
from charterer.domain.nodes.demands import NodeOffers, misfits
from charterer.domain.nodes.packing import taken
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.pool import CapacityType, Pool
from charterer.domain.reasons import facts_of_offers as of
from charterer.domain.reasons import facts_of_waits as waits
from charterer.domain.reasons.fact import Fact
from charterer.gpu_types import names_type, slice_profile, takes_part
from charterer.policy.actions.budget_plan import BudgetPlan
from charterer.policy.jobs.predicates import reason
from charterer.policy.options.pool_selection import left_out

_TOLD = 3
"""Pools whose trouble is told, or who else pays: a cloud's words may be long."""


def no_option(plan: BudgetPlan, job: Job) -> Reason:
    """The reason of a job that no pool of its budget fits: ``NotAskedYet`` while a pool's cloud may still offer it."""
    snapshot, budget = plan.snapshot, plan.solution.budget
    pools, others = snapshot.pools_of(budget), left_out(budget, snapshot.pools)
    paid = tuple(
        [
            (name, pool.committed.budget)
            for name, pool in snapshot.pools.items()
            if pool.committed is not None and name not in pools and budget.pool_selector.matches(pool.labels)
        ]
    )
    paid_by_others = of.PaidByOthers(paid[:_TOLD]) if paid else None
    told = paid_by_others or others
    if told is not None and not pools:
        return reason(ReasonCode.NO_OPTION, told)
    unknown = {name: pool for name, pool in pools.items() if not (_is_known(pool) or pool.closed_because)}
    asked = [name for name, pool in unknown.items() if name not in snapshot.surveys and not pool.trouble]
    if asked:
        return reason(ReasonCode.NOT_ASKED_YET, waits.NotAskedYet(tuple(asked)))
    why = reason(ReasonCode.NO_OPTION, _why(job, pools, plan.solution.inputs.offers))
    for name, pool in sorted(unknown.items())[:_TOLD]:
        why = why.with_note(of.PoolTrouble(name, pool.trouble))
    return why.with_note(others).with_note(paid_by_others)


def _is_known(pool: Pool) -> bool:
    return pool.offering is not None and pool.quote is not None


def _why(job: Job, pools: Mapping[PoolId, Pool], nodes: NodeOffers) -> Fact:
    """The request of the job, and the offers of pools that its budget may rent."""
    asked = of.Request(job.widths.min, job.widths.max, tuple(job.gpu_types))
    offers = [
        (pool.offering.gpu_type, pool.offering.gpus_per_node * pool.max_nodes, pool)
        for pool in pools.values()
        if pool.offering is not None and pool.quote is not None and not pool.deleting
    ]
    of_type = [offer for offer in offers if names_type(job.gpu_types, offer[0])]
    fitting = [offer for offer in of_type if takes_part(offer[0], job.widths.slices, job.widths.shared_mib)]
    if not pools:
        return of.NoPool()
    if not offers:
        return of.NoKnownPool(asked)
    if of_type and not fitting:
        return of.OnlySlices(asked, tuple(sorted({slice_profile(gpu_type) for gpu_type, _, _ in of_type})))
    if not fitting:
        return of.OtherGpuTypes(asked, tuple(sorted({gpu_type for gpu_type, _, _ in offers})))
    if job.spot is not SpotPolicy.ALLOWED:
        fitting = [offer for offer in fitting if offer[2].capacity_type is not CapacityType.SPOT]
    if not fitting:
        return of.OnlySpot(asked)
    lacking = {pool.id: misfits(job.demands, nodes.nodes[pool.id]) for _, _, pool in fitting}
    fitting = [offer for offer in fitting if not lacking[offer[2].id]]
    if not fitting:
        nearest = min(sorted(lacking), key=lambda name: len(lacking[name]))
        return of.NodesDoNotFit(asked, nearest, lacking[nearest], len(lacking) - 1)
    gpu_type, most, pool = max(fitting, key=lambda offer: offer[1])
    if job.widths.each:
        limits = dict(nodes.limits(job.demands, job.widths.each))
        return _pods_do_not_fit(job.widths, [pool for _, _, pool in fitting], limits)
    if most < job.widths.min:
        return of.PoolsTooSmall(asked, pool.id, most, gpu_type)
    return of.NothingFits(asked)


def _pods_do_not_fit(widths: Widths, pools: Sequence[Pool], limits: Mapping[PoolId, int]) -> Fact:
    """That the fewest pods of an object need more nodes of each pool than there may be, or larger ones."""
    found = []
    for pool in pools:
        takes = taken(widths.min, pool.gpus_per_node, widths.each, limits.get(pool.id))
        needed = None if takes is None else pool.nodes(takes)
        pods = widths.min // widths.each
        found.append(of.PodsDoNotFit(pool.id, pods, widths.each, pool.gpus_per_node, needed, pool.max_nodes))
    return min(found, key=lambda one: (one.nodes is None, (one.nodes or 0) - one.most, -one.size, one.pool))
