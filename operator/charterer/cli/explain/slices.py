"""What ``charterer explain`` says of slices and shared GPUs, and of pools that a job does not take."""

from __future__ import annotations

from collections.abc import Sequence

from charterer.cli.explain.explanation import Explanation
from charterer.cli.shared.formatting import percent
from charterer.domain.job import Job
from charterer.domain.money import Money
from charterer.domain.pool import Pool
from charterer.domain.reasons.phrases import parts
from charterer.domain.snapshot import Snapshot
from charterer.gpu_types import is_shared, may_use, slice_profile, whole_type
from charterer.policy.explain.ruled_out import nodes_not_fitting, parts_not_taken
from charterer.policy.options.pair_speeds import ExpectedPart, chooses_partner
from charterer.policy.outlook.partners import Pair, Partners


def slice_sentences(explanation: Explanation) -> Sequence[str]:
    """A sentence for each kind of slice or shared GPU among its options, and for each pool that is none of them.

    Nothing of pools of slices or shared GPUs to a job that takes none.
    """
    solution, options = explanation.solution, explanation.options
    if solution is None or options is None:
        return ()
    pools = solution.inputs.snapshot.pools_of(solution.budget)
    here = [pools[each.option.pool] for each in options.rows if each.option.slice and each.option.pool in pools]
    alone = solution.inputs.unprofitable.get(solution.budget.id, frozenset())
    partners = Partners(solution)
    pairs = [pair for each in options.rows if (pair := partners.best(explanation.job, each.option)) is not None]
    told = [*map(_part, here), *(_beside(explanation.job, pair, solution.inputs.snapshot) for pair in pairs)]
    told += [*parts_not_taken(explanation.job, pools), *nodes_not_fitting(explanation.job, solution)]
    told += [_too_few(pools[name]) for name in sorted(alone) if _takes(explanation.job, pools[name])]
    return tuple(dict.fromkeys(told))


def _beside(job: Job, pair: Pair, snapshot: Snapshot) -> str:
    """With whom it shares a GPU, or would, and what both keep."""
    other = snapshot.jobs[pair.partner]
    name, runs = f"{other.namespace}/{other.name}", job.allocation is not None
    keeps = "keeps" if runs else "would keep"
    told = f"Beside {name} it {keeps} {_part_kept(pair.match.kept)}, and {name} {_part_kept(pair.match.partner_kept)}."
    if runs:
        return told
    if pair.match.saving is None:
        return f"{told} At least one of them would lose, so they do not share a GPU."
    return f"{told} Together they save {Money.of(pair.saved)} until the first of them ends."


def _part_kept(part: ExpectedPart) -> str:
    how = f"{part.reports:,} reports" if part.reports > 1 else "1 report" if part.reports else "expected"
    return f"{percent(part.kept)} of its speed ({how})"


def _takes(job: Job, pool: Pool) -> bool:
    return pool.offering is not None and may_use(
        pool.offering.gpu_type, job.gpu_types, job.widths.slices, job.widths.shared_mib
    )


def _too_few(pool: Pool) -> str:
    profile = "" if pool.offering is None else slice_profile(pool.offering.gpu_type)
    others = "places" if is_shared(profile) else "slices"
    return (
        f"{parts(profile)} on {pool.id} are no option now: too few jobs of the budget would choose them, and the other "
        f"{others} of a node would be paid for nobody."
    )


def _part(pool: Pool) -> str:
    offering = pool.offering
    assert offering is not None
    profile, slices = slice_profile(offering.gpu_type), offering.slices_per_gpu
    if is_shared(profile):
        whole = whole_type(offering.gpu_type)
        told = f"Up to {slices} jobs share a {whole} on {pool.id}. Each pays its part of it"
        others = "those that it would join" if chooses_partner(pool) else "others"
        return f"{told}, and its speed is that which its class has beside {others}."
    return f"A {profile} slice is one of {slices} of a {whole_type(offering.gpu_type)}."
