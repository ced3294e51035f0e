"""Options and pools that a job cannot use, each with the limit that rules it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import PoolId
from charterer.domain.job import Job, SpotPolicy
from charterer.domain.node_demands import misfits
from charterer.domain.offered_node import pods_on_node
from charterer.domain.option import Option
from charterer.domain.plan import ReasonCode, Verdict
from charterer.domain.pool import CapacityType, Offering, Pool
from charterer.domain.reasons.options import misfits_in_words
from charterer.domain.reasons.phrases import format_money, parts
from charterer.gpu_types import names_type, share_of_memory, sharers, slice_profile, takes_part, whole_type
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.jobs.job_facts import job_position
from charterer.policy.nodes.limits import max_cost_left, needs
from charterer.policy.options.menu import Menu
from charterer.policy.options.option_value import OptionValues
from charterer.policy.options.sources import offered_widths
from charterer.sentences import count, names


@dataclass(frozen=True, slots=True)
class RuledOut:
    """An option that a job may not have, or a pool without any option for the job (``option`` is None). ``why``: the
    limit.

    ``seconds``, ``dollars``: time and money from now to the job's end, including the start; None if the job's remaining
    work is unknown.
    """

    pool: PoolId
    option: Option | None
    seconds: float | None
    dollars: float | None
    why: str


def ruled_out(job: Job, verdict: Verdict, solution: BudgetSolution) -> Sequence[RuledOut]:
    """The unavailable options of a job that waits because it can have no option, the cheapest first, and then the
    pools without an option for the job. The result is empty if the job waits for another reason."""
    if verdict.reason.code not in (ReasonCode.MAX_COST, ReasonCode.NO_OPTION):
        return ()
    snapshot = solution.inputs.snapshot
    menu = solution.inputs.menus[solution.budget.id].menu(solution.key(job)[1])
    offered = {option.pool for option in menu.options}
    pools = [
        RuledOut(name, None, None, None, _why_not(pool, job, menu, solution))
        for name, pool in sorted(snapshot.pools.items())
        if name not in offered
    ]
    return (*_above_max_cost(job, menu, solution), *pools)


def parts_not_taken(job: Job, pools: Mapping[PoolId, Pool]) -> Sequence[str]:
    """A sentence for each pool whose slices or shared GPUs the job does not accept. The result is empty if the job
    accepts no parts of GPUs at all."""
    widths, told = job.widths, list[str]()
    for name, pool in sorted(pools.items()) if widths.slices or widths.shared_mib else ():
        if pool.offering is not None and not takes_part(pool.offering.gpu_type, widths.slices, widths.shared_mib):
            profile = slice_profile(pool.offering.gpu_type)
            told.append(f"{parts(profile)} on {name} are no option: {_no_part(pool.offering, job)}.")
    return told


def nodes_not_fitting(job: Job, solution: BudgetSolution) -> Sequence[str]:
    """A sentence for each pool whose nodes the job's template rules out, and one on fields that only the scheduler
    judges."""
    inputs, told = solution.inputs, list[str]()
    for name, pool in sorted(inputs.snapshot.pools_of(solution.budget).items()):
        node = inputs.offers.nodes.get(name)
        of_type = pool.offering is not None and names_type(job.gpu_types, pool.offering.gpu_type)
        if node is not None and of_type and (lacking := misfits(job.demands, node)):
            told.append(f"{name} is no option: {misfits_in_words(lacking)}.")
    if job.demands.unread:
        fields = names([f"spec.template.spec.{field}" for field in job.demands.unread])
        told.append(f"{fields}: only the scheduler judges whether a node meets this, once the node is there.")
    return told


def _above_max_cost(job: Job, menu: Menu, solution: BudgetSolution) -> Sequence[RuledOut]:
    """The options whose cost, with the reserve for an orderly stop, is above what its maxCost leaves."""
    left, limit, sized, assignment = (
        max_cost_left(job, solution.inputs.snapshot),
        job.cost_limit,
        solution.sized(job),
        solution.assignment(job),
    )
    if left is None or limit is None or not menu.options:
        return ()
    found = []
    position = job_position(job, 1.0) if assignment is None else assignment.position(job)
    for way in OptionValues(menu, 0.0).entering(position):
        needed = format_money(needs(job, way, sized=sized))
        why = f"{limit.field}: it needs {needed}, and {format_money(max(left, 0.0))} is left"
        seconds, dollars = (way.seconds, way.dollars) if sized else (None, None)
        found.append(RuledOut(way.option.pool, way.option, seconds, dollars, why))
    return found


def _why_not(pool: Pool, job: Job, menu: Menu, solution: BudgetSolution) -> str:
    """Why the pool has no option for the job."""
    budget, offering = solution.budget, pool.offering
    if not budget.pool_selector.matches(pool.labels):
        return f"spec.poolSelector of GPUBudget {budget.id} leaves the pool out"
    if pool.closed_because:
        return pool.closed_because
    if pool.quote is None:
        return "no price of a node is known: see the pool's condition Ready"
    if offering is None:
        return "the cloud has not said what a node is: see the pool's condition Ready"
    if not names_type(job.gpu_types, offering.gpu_type):
        return f"spec.gpuTypes: a node has {offering.gpu_type}"
    if not takes_part(offering.gpu_type, job.widths.slices, job.widths.shared_mib):
        return _no_part(offering, job)
    if pool.capacity_type is CapacityType.SPOT and job.spot is not SpotPolicy.ALLOWED:
        return "spec.spotPolicy: its nodes are spot"
    if lacking := misfits(job.demands, solution.inputs.offers.nodes[pool.id]):
        return f"of its nodes: {misfits_in_words(lacking)}"
    return _wrong_width(pool, offering, job, solution) or _no_speed(offering, job, menu)


def _no_part(offering: Offering, job: Job) -> str:
    """Why the job accepts no slice of the pool, or does not share its GPUs."""
    profile, needed = slice_profile(offering.gpu_type), job.widths.shared_mib
    jobs, most = sharers(profile), share_of_memory(offering.gpu_type)
    if jobs == 1:
        return f"spec.gpus.slices does not name {profile}"
    if not needed:
        return f"spec.gpus.shared is not set, and {jobs} jobs share a GPU there"
    if not most:
        return f"the memory of a {whole_type(offering.gpu_type)} is not known"
    return f"spec.gpus.shared.memory: it needs {needed:,} MiB, and each of the {jobs} jobs on a GPU has {most:,.0f} MiB"


def _wrong_width(pool: Pool, offering: Offering, job: Job, solution: BudgetSolution) -> str:
    """Why the pool offers no number of GPUs between the job's least and most; empty if it does."""
    size, widths = offering.gpus_per_node, job.widths
    pods = dict(solution.inputs.offers.limits(job.demands, widths.each)).get(pool.id)
    if offered_widths(offering.gpu_type, size, widths, pool.max_nodes, pods):
        return ""
    if widths.each:
        on_node = pods_on_node(size, widths.each, pods)
        return f"a node takes {count(on_node, 'pod')} of {count(widths.each, 'GPU')}, and maxNodes is {pool.max_nodes}"
    if size * pool.max_nodes < widths.min:
        nodes = f"{count(pool.max_nodes, 'node')} of {count(size, 'GPU')}"
        return f"spec.gpus: it asks for {widths.min} or more, and the pool's spec.maxNodes allows {nodes}"
    asked = f"{widths.min}" if widths.min == widths.max else f"{widths.min} to {widths.max}"
    below = ", ".join(str(1 << power) for power in range(size.bit_length()) if 1 << power < size)
    return f"spec.gpus: it asks for {asked}, and the pool offers {below} GPUs of a node, or whole nodes of {size}"


def _no_speed(offering: Offering, job: Job, menu: Menu) -> str:
    """Why the speed in the pool is unknown although the pool has a suitable number of GPUs."""
    if menu.known:
        return f"SpeedupProfile {job.class_id.name} has no curve of {offering.gpu_type}, or runs failed there"
    if menu.options:
        return f"its speed is not known, so it gets {count(menu.options[0].gpus, 'GPU')}, as other pools have"
    return f"spec.gpus.preferred: its speed is not known, so it gets {count(job.widths.preferred, 'GPU')} at most"
