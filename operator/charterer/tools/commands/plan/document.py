"""The document of ``charterer plan``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from charterer.controller.status.jobs import job_state
from charterer.domain.budget import Budget, Cause, Mode
from charterer.domain.ids import BudgetId, JobId, Rate
from charterer.domain.job import Job, SpotPolicy
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.plan import ForecastVerdict, GpuHoursVerdict, Limit, PoolVerdict, ShareVerdict, SpendVerdict
from charterer.domain.reasons.phrases import as_variant, format_money, in_hours, name
from charterer.domain.snapshot import NO_LIMITS, Snapshot
from charterer.domain.time import after
from charterer.ledger.attribution import CommitmentUse, SpentByCause, commitment_uses, spent_by_cause
from charterer.ledger.balance import current_rate
from charterer.policy.budgets.solution import BudgetSolution, late, of_first_period, of_share
from charterer.policy.nodes.limits import GrantWindow, OperatorRoom, in_words
from charterer.policy.options.market import MenuKey, no_pool
from charterer.sentences import count
from charterer.tools.commands.plan.answer import PlanAnswer
from charterer.tools.commands.plan.difference import (
    actions_now,
    difference_blocks,
    more_or_less_blocks,
    overview_blocks,
)
from charterer.tools.commands.shared import output
from charterer.tools.commands.shared.output import JsonValue, copied
from charterer.tools.commands.shared.plan_report import ClassRow, PlanReport
from charterer.tools.documents.document import (
    Block,
    Document,
    DocumentTable,
    Heading,
    Item,
    Items,
    Paragraph,
    Picture,
    TableCell,
    TableColumn,
    Tone,
    row,
)
from charterer.tools.frontier import Frontier, PeriodSums, WithoutKind, mean_seconds

# The worth of each kind of capacity, which is how much more the same jobs would cost without the kind.


_NOTHING = 0.001
"""Fraction of the cost below which a kind of capacity counts as worth nothing."""


def capacity_blocks(report: PlanReport) -> list[Block]:
    """Make a line for each kind of capacity that is worth something. Empty if every budget has a single kind."""
    several = len(report.solutions) > 1
    lines = [
        (f"{budget}: " if several else "") + without_in_words(lost, report.frontiers[budget].a_period)
        for budget, kinds in report.without.items()
        for lost in kinds
        if lost.impossible or lost.more is None or _part(lost.more, lost) >= _NOTHING
    ]
    if not lines:
        return []
    return [
        Heading("What each kind of capacity brings, in the long run"),
        Items(tuple(Item("-", line) for line in lines)),
    ]


def without_in_words(lost: WithoutKind, a_period: str) -> str:
    """Return the cost of the same jobs without the kind, or why they would be slower.

    ``a_period``: such as "a month".
    """
    pools = f" (pool{'' if len(lost.pools) == 1 else 's'} {', '.join(lost.pools)})" if lost.pools else ""
    without = f"without {lost.kind}{pools}"
    jobs = "the same jobs"
    if lost.impossible:
        lack = "have nowhere to run" if lost.pools else "have a template whose speed nobody knows"
        without += f" {lost.impossible * 3600:.3g} jobs an hour {lack}"
        if not lost.now.micros:
            return without
        without, jobs = f"{without}, and", "the others"
    if lost.more is not None:
        part = _part(lost.more, lost)
        if part < _NOTHING:
            return f"{without} {jobs} would cost the same"
        return (
            f"{without} {jobs} would cost {output.whole(lost.more)} {a_period} more ({part:+.0%}) if they were as fast"
        )
    if lost.slower is None:
        return f"{without} {jobs} would queue: even their cheapest options left cost more than the amount"
    if not lost.room:
        return f"{without} {jobs} could not be as fast: {_others(lost)} no room for that"
    cost = _at_what_cost(lost, a_period)
    return f"{without} {jobs} would take {lost.slower:.2f} times as long, {cost}; no amount makes up for it"


def _part(more: Money, lost: WithoutKind) -> float:
    """Return ``more`` as a fraction of the jobs' present cost."""
    return more.dollars / lost.now.dollars if lost.now.micros else 0.0


def _at_what_cost(lost: WithoutKind, a_period: str) -> str:
    """Return the change of cost, if the jobs are slower without the kind."""
    part = _part(lost.more_then, lost)
    if abs(part) < _NOTHING:
        return "for the same money"
    amount, word = (lost.more_then, "more") if part > 0.0 else (-lost.more_then, "less")
    return f"for {output.whole(amount)} {a_period} {word} ({part:+.0%})"


def _others(lost: WithoutKind) -> str:
    if not lost.pools:
        return "the pools have"
    return "the other pool has" if lost.others == 1 else f"the {count(lost.others, 'other pool')} have"


def without_json(kinds: tuple[WithoutKind, ...]) -> JsonValue:
    """Return the worth of each kind as JSON. ``more`` is null if the jobs could not be as fast."""
    return [
        copied(lost, "kind pools costs=now more timesAsLong=slower moreThen otherPoolsHaveRoom=room")
        | {"jobsPerHourWithoutPool": lost.impossible * 3600.0}
        for lost in kinds
    ]


# The table of classes: the options of a new job.


def class_blocks(classes: Sequence[ClassRow]) -> list[Block]:
    """Make the table with its heading. Empty if there is no class."""
    if not classes:
        return []
    columns = (
        TableColumn("BUDGET", optional=True),
        TableColumn("CLASS"),
        TableColumn("JOBS/H", right=True),
        TableColumn("JOB TAKES", right=True),
        TableColumn("JOB COSTS", right=True),
        TableColumn("GIVEN", elastic=True),
    )
    rows = tuple(
        row(
            job_class.budget,
            _class_name(job_class, classes),
            f"{job_class.arrivals_per_hour:.3g}",
            output.duration(job_class.seconds),
            format_money(job_class.dollars),
            output.mixed(job_class.paths),
        )
        for job_class in classes
    )
    return [Heading("What a new job of each class is given"), DocumentTable(columns, rows)]


def _class_name(job_class: ClassRow, classes: Sequence[ClassRow]) -> str:
    """Return the class and its weight. If the class has several rows, add the terms in which the rows differ.

    A job without a profile is a class of its own. Such jobs with the same terms share a row, which names one of the
    jobs.
    """
    name = _profile(job_class)
    if not name and job_class.jobs:
        first, *others = job_class.jobs
        return f"{first} and {len(others)} like it" if others else first
    alike = [other for other in classes if (other.budget, _profile(other)) == (job_class.budget, name)]
    terms = [f"weight {job_class.weight:g}"] if job_class.weight != 1.0 else []
    for words in (_widths, _asked, _gpu_types, _slices, _shared, _spot, _resize, _failed, _variants):
        if len({words(other.menu) for other in alike}) > 1:
            terms.append(words(job_class.menu))
    if not name:
        terms.insert(0, "no profile")
    return " ".join(filter(None, [name, f"({', '.join(terms)})" if terms else ""]))


def _profile(job_class: ClassRow) -> str:
    return str(job_class.class_id) if job_class.class_id.has_profile else ""


def _widths(menu: MenuKey) -> str:
    return f"{menu.least} to {menu.most} GPUs" if menu.least < menu.most else count(menu.least, "GPU")


def _asked(menu: MenuKey) -> str:
    return f"asks for {menu.preferred}"


def _gpu_types(menu: MenuKey) -> str:
    return f"on {' or '.join(menu.gpu_types)}" if menu.gpu_types else "any GPU type"


def _slices(menu: MenuKey) -> str:
    return f"or a slice of {' or '.join(menu.slices)}" if menu.slices else "no slices"


def _shared(menu: MenuKey) -> str:
    return f"or a shared GPU with {menu.shared_mib:,} MiB" if menu.shared_mib else "no shared GPU"


def _spot(menu: MenuKey) -> str:
    return "spot allowed" if menu.spot is SpotPolicy.ALLOWED else "no spot"


def _resize(menu: MenuKey) -> str:
    return "resized in place" if menu.fewest_pods else "restarted to resize"


def _variants(menu: MenuKey) -> str:
    tries = ", one of which it may try" if menu.tries else ""
    return f"variants {', '.join(variant.name for variant in menu.variants)}{tries}" if menu.variants else "no variants"


def _failed(menu: MenuKey) -> str:
    widths = sorted(f"{gpus} on {pool}{as_variant(variant)}" for pool, gpus, variant in menu.failed)
    return f"failed on {', '.join(widths)}" if widths else "never failed"


# Commitments: their use in this period, and the effect of one node more or less.


def commitment_blocks(report: PlanReport) -> list[Block]:
    """Make a line for each commitment of which a node was billed in this period. Empty without any."""
    found = [
        Item("-", use_in_words(use))
        for solution in report.solutions
        for use in commitment_uses(solution.budget, report.snapshot)
    ]
    return [Heading(f"What was used of commitments this {report.period}"), Items(tuple(found))] if found else []


def use_in_words(use: CommitmentUse) -> str:
    """Return the use of one commitment, and the effect that one node more or less would have had."""
    return (
        f"{use.pool}: {use.used} used ({use.used_gpu_hours:,.0f} GPU-hours, {use.part:.0%} of all), {use.unused} not "
        f"used ({use.unused_gpu_hours:,.0f} GPU-hours); a node less would have {_effect(use.node_less)}, and one more "
        f"{_effect(use.node_more)}, by the nodes that are on record"
    )


def commitments_json(budget: Budget, report: PlanReport) -> JsonValue:
    """Return the use of each commitment as JSON, to the micro-dollar."""
    keys = "pool used unused usedGpuHours unusedGpuHours partOfGpuHours=part"
    keys += " nodeLessSaves=node_less nodeMoreSaves=node_more"
    return [copied(use, keys) for use in commitment_uses(budget, report.snapshot)]


def _effect(saved: Money) -> str:
    return f"saved {saved}" if saved >= ZERO else f"cost {-saved} more"


# Budgets in the order of their tree, and a line on each parent.


def in_tree_order(report: PlanReport) -> Iterator[tuple[int, BudgetSolution]]:
    """Yield each budget with its depth, directly after its parent. Children of one parent are in order of name."""
    if not report.solutions:
        return
    above = report.solutions[0].inputs.tree.above
    by_line: dict[tuple[BudgetId, ...], BudgetSolution] = {}
    for solution in report.solutions:
        name = solution.budget.id
        by_line[(*reversed(above.get(name, ())), name)] = solution
    for line in sorted(by_line):
        yield len(line) - 1, by_line[line]


def family_in_words(budget: Budget, family: SpendVerdict) -> str:
    """Return how limits bind a budget and all budgets below it: ``with all below it: $512.00 of hardLimit $600.00
    committed``.
    """
    told = []
    if budget.hard_limit is not None:
        told.append(f"{family.committed} of hardLimit {budget.hard_limit} committed")
    if budget.max_hourly_rate is not None:
        told.append(f"nodes for up to {family.hourly} of maxHourlyRate {budget.max_hourly_rate}")
    share = budget.share
    if share is not None and share.below > share.in_all:
        told.append(f"those below ask for {share.below}, and each has its part")
    return f"with all below it: {', '.join(told)}" if told else "with all below it"


# The table of this period's dollars by cause.


_MEANINGS: Mapping[Cause, str] = {
    Cause.JOB: "GPUs that jobs held",
    Cause.STARTING: "nodes from their launch until they took pods",
    Cause.IDLE: "GPUs of ready nodes that no job held",
    Cause.ENDING: "nodes without a job, from the decision to end them to their end",
    Cause.INCOMPLETE_GANG: "nodes that waited for the others that their job needs at once",
}


def spent_blocks(report: PlanReport) -> list[Block]:
    """Make rows for each budget, which add up to its spending. Empty if no budget has spent anything."""
    several = len(report.solutions) > 1
    rows = [
        row(*([str(budget.id)] if several else []), *cells)
        for budget, found in _spent(report)
        if found.spent != ZERO
        for cells in _rows(found)
    ]
    if not rows:
        return []
    columns = (
        *([TableColumn("BUDGET")] if several else []),
        TableColumn("FOR"),
        TableColumn("DOLLARS", right=True),
        TableColumn("SHARE", right=True),
        TableColumn("", elastic=True),
    )
    return [Heading(f"What this {report.period}'s dollars were for"), DocumentTable(columns, tuple(rows))]


def spent_json(budget: Budget, report: PlanReport) -> JsonValue:
    """Return the budget's spending by cause as JSON, to the micro-dollar."""
    found = _of(budget, report)
    return {
        **{_camel_case(cause): amount.decimal() for cause, amount in found.causes.items()},
        **copied(found, "opening uncounted"),
    }


def _spent(report: PlanReport) -> list[tuple[Budget, SpentByCause]]:
    return [(solution.budget, _of(solution.budget, report)) for solution in report.solutions]


def _of(budget: Budget, report: PlanReport) -> SpentByCause:
    snapshot = report.snapshot
    rentals = [rental for rental in snapshot.rentals.values() if rental.budget == budget.id]
    return spent_by_cause(budget, rentals, snapshot.now)


def _rows(found: SpentByCause) -> Sequence[tuple[str | TableCell, ...]]:
    """Return the nonzero amounts and their sum."""
    amounts = [
        *((_words(cause), amount, _MEANINGS[cause]) for cause, amount in found.causes.items()),
        ("opening", found.opening, "spec.openingSpend"),
        ("not sorted yet", found.uncounted, "since the ledger's last count, about a minute ago"),
    ]
    rows: list[tuple[str | TableCell, ...]] = [
        (name, output.exact(amount), output.percent(amount.micros / found.spent.micros), meaning)
        for name, amount, meaning in amounts
        if amount != ZERO
    ]
    return [*rows, (TableCell("spent", Tone.STRONG), TableCell(output.exact(found.spent), Tone.STRONG), "", "")]


def _words(cause: Cause) -> str:
    return "training" if cause is Cause.JOB else cause.value.replace("_", " ")


def _camel_case(cause: Cause) -> str:
    first, *others = _words(cause).split()
    return first + "".join(word.capitalize() for word in others)


_INDENT = "\u00a0" * 2
"""Indent of a budget below another one. HTML does not collapse these spaces."""


def plan_document(answer: PlanAnswer, jobs: int, pictures: Sequence[Picture] | None = None) -> Document:
    """Make the document of the plan, or of the difference that a what-if makes. ``jobs``: most jobs shown, or 0 for
    all.

    ``pictures`` are given only for a page. They come first, below a sentence on each budget.
    """
    report = answer.report
    blocks: list[Block] = [*overview_blocks(answer, pictures)]
    if answer.before is None:
        blocks += actions_now(report.actions)
    else:
        blocks += difference_blocks(answer, answer.before)
    blocks += _budgets(report)
    blocks += spent_blocks(report)
    blocks += commitment_blocks(report)
    blocks += _operator(report.snapshot)
    blocks += _pools(report)
    blocks += class_blocks(report.classes)
    blocks += _jobs(answer, jobs)
    blocks += more_or_less_blocks(report)
    blocks += capacity_blocks(report)
    blocks += _problems(report)
    return Document("charterer plan", tuple(blocks))


# --- budgets, classes, jobs -------------------------------------------------------------------------------------------


def _budgets(report: PlanReport) -> list[Block]:
    columns = (
        TableColumn("BUDGET"),
        TableColumn("MODE", optional=True),
        TableColumn("AMOUNT", right=True),
        TableColumn("SPENT", right=True),
        TableColumn("FORECAST", right=True),
        TableColumn(f"IN 9 OF 10 {report.period.upper()}S", right=True, optional=True),
        TableColumn("ALLOWS/H", right=True, optional=True),
        TableColumn("NOW/H", right=True),
        TableColumn("LONG RUN/H", right=True, optional=True),
        TableColumn("PAYS/H-SAVED", right=True),
        TableColumn("MEAN JOB", right=True),
        TableColumn("STATE", elastic=True),
    )
    rows = []
    for depth, solution in in_tree_order(report):
        budget, verdict = solution.budget, report.plan.budgets[solution.budget.id]
        family, indent = verdict.with_descendants, _INDENT * depth
        if family is not None:
            sums = (str(family.amount), str(family.spent), *_forecast(family.forecast), "-", "-", "-", "-", "-")
            rows.append(row(f"{indent}{budget.id}", budget.mode, *sums, family_in_words(budget, family)))
            if budget.selector.nothing:
                continue
            indent += _INDENT
        state, tone = budget_state(solution, report.frontiers[budget.id])
        rows.append(
            row(
                f"{indent}{budget.id}{' itself' if family is not None else ''}",
                budget.mode,
                str(budget.amount),
                str(verdict.spent),
                *_forecast(verdict.forecast),
                output.hourly(verdict.allowed),
                output.hourly(current_rate(budget.id, report.snapshot.rentals.values())),
                output.hourly(verdict.planned),
                output.rate(verdict.rate),
                output.duration(mean_seconds(solution)),
                TableCell(state, tone),
            )
        )
    sentences = [
        f"{solution.budget.id} pays {_for_time(rate)}"
        for solution in report.solutions
        if (rate := report.plan.budgets[solution.budget.id].rate) is not None
    ]
    lines = [Paragraph("; ".join(sentences) + ".")] if sentences else []
    loans = [
        Paragraph(
            f"{loan.lender} lends {loan.borrower} {loan.amount} this {report.snapshot.budgets[name].calendar.word}, "
            "which it is not forecast to need."
        )
        for name, verdict in report.plan.budgets.items()
        for loan in verdict.loans
        if loan.borrower == name
    ]
    shares = [
        Paragraph(f"{name}: {'; '.join([_share(share) for share in verdict.shares])}.")
        for name, verdict in report.plan.budgets.items()
        if verdict.shares
    ]
    firsts = [
        Paragraph(f"{solution.budget.id}: {words}.")
        for solution in report.solutions
        if (words := of_first_period(solution.budget, report.snapshot.now))
    ]
    currencies = [Paragraph(words) for solution in report.solutions if (words := _in_currency(solution, report))]
    table = DocumentTable(columns, tuple(rows))
    hours = [
        Paragraph(f"{name}: {_gpu_hours(each)}.")
        for name, verdict in report.plan.budgets.items()
        for each in verdict.gpu_hours
    ]
    more = [*firsts, *shares, *hours, *loans, *currencies]
    return [Heading("Budgets"), *lines, table, *_meaning(rows), *_sums(report), *more]


def _share(share: ShareVerdict) -> str:
    """``share ann (25%): 3 jobs, up to $4.00/h, $2.00 per job-hour saved``."""
    name = f"share {share.name}" if share.name else "all others"
    waits = "" if share.feasible else ", too little for the cheapest options of all of them: they queue"
    paid = f"up to {share.allowed}, {output.rate(share.rate)} per job-hour saved"
    return f"{name} ({share.part:.0%}): {count(share.jobs, 'job')}, {paid}{waits}"


def _gpu_hours(hours: GpuHoursVerdict) -> str:
    """``1,204.5 of 2,000.0 GPU-hours of H100 are used, and 1,333.3 are for the time so far and the next ten days``."""
    return (
        f"{in_hours(hours.used)} of {in_hours(hours.amount)} GPU-hours of {hours.gpu_type} are used, and "
        f"{in_hours(hours.released)} are for the time so far and the next ten days"
    )


def _in_currency(solution: BudgetSolution, report: PlanReport) -> str:
    """Return the amount and the spending in the budget's currency, or an empty text for dollars."""
    budget = solution.budget
    if budget.currency is None:
        return ""
    spent = budget.currency.amount(report.plan.budgets[budget.id].spent)
    amount = budget.currency.amount(budget.amount)
    return f"{budget.id}: the amount is {amount} and {spent} are spent, at {budget.currency}."


def _forecast(forecast: ForecastVerdict | None) -> tuple[str, str]:
    if forecast is None:
        return "no history", "-"
    return str(forecast.expected), f"{output.whole(forecast.low)} to {output.whole(forecast.high)}"


def _sums(report: PlanReport) -> list[Block]:
    """Make a sentence on the parts of each forecast."""
    return [
        Paragraph(_sum_in_words(budget, sums, report.snapshot.budgets[budget].calendar.word))
        for budget, sums in report.sums.items()
        if sums.jobs or sums.spent != ZERO
    ]


def _sum_in_words(budget: BudgetId, sums: PeriodSums, word: str) -> str:
    text = f"{budget}: {sums.spent} spent, {sums.in_sight} for {count(sums.jobs, 'job')} in sight, "
    if sums.commitments != ZERO:
        text += f"{sums.commitments} for nodes that are paid for whether they are used or not, "
    if not sums.assumed:
        return f"{text}{sums.to_come} for jobs expected to come."
    return (
        f"{text}{sums.to_come} for jobs to come, assumed: there is no history yet. If nothing else comes, the {word} "
        f"ends at {sums.without_more_jobs}."
    )


def _for_time(rate: Rate) -> str:
    return f"up to {output.rate(rate)} per job-hour saved" if rate else "only for the cheapest options"


def _meaning(rows: Sequence[tuple[TableCell, ...]]) -> list[Paragraph]:
    """Explain the table's column names."""
    words = (
        "ALLOWS/H is what a budget may spend an hour now, NOW/H what its rented nodes cost, and LONG RUN/H what its "
        "jobs' options spend if jobs come as they are expected. PAYS/H-SAVED is the most that it pays to end a job one "
        "hour earlier; it follows from the amount and the load. MEAN JOB is the time from submission to completion, in "
        "the long run."
    )
    return [Paragraph(words, Tone.FAINT)] if rows else []


def budget_state(solution: BudgetSolution, frontier: Frontier) -> tuple[str, Tone]:
    """Return a sentence on how the budget fits its load and its parent, and the sentence's tone."""
    fault = solution.inputs.tree.faults.get(solution.budget.id)
    if fault is not None:
        return fault.sentence(), Tone.BAD
    state, tone = _state_of_load(solution, frontier)
    part = of_share(solution.budget)
    return f"{state}; {part}" if part else state, tone


def _state_of_load(solution: BudgetSolution, frontier: Frontier) -> tuple[str, Tone]:
    needs = (
        "" if not frontier.told else f"the cheapest options of its jobs need {frontier.cheapest} {frontier.a_period}"
    )
    if (closed := GrantWindow(solution.budget, 0, 0.0, solution.now).closed) is not None:
        return closed.sentence(), Tone.BAD
    if solution.inputs.snapshot.needs_money(solution.budget):
        return f"the amount is 0: nothing can be rented{'; ' if needs else ''}{needs}", Tone.BAD
    if no_pool(solution.budget, solution.inputs.snapshot.pools):
        return "can rent nothing: spec.poolSelector selects no GPUPool", Tone.BAD
    if frontier.empty:
        jobs = [job for job in solution.inputs.snapshot.jobs.values() if job.budget == solution.budget.id]
        if unfinished := sum(not job.finish for job in jobs):
            these = "its only job cannot" if unfinished == 1 else f"none of its {unfinished} jobs can"
            return f"{these} be given GPUs: see WHY", Tone.BAD
        return "no jobs, and no profile says that any are expected", Tone.FAINT
    if not frontier.told and solution.feasible:
        return "no history yet: how many jobs come is assumed", Tone.PLAIN
    kept_up = frontier.cheapest.dollars <= solution.allowed * frontier.period_seconds
    if not solution.feasible:
        allowed = Price.per_second(solution.allowed)
        why = "; the jobs that are there cost more than that" if kept_up or not needs else f"; {needs}"
        return (
            f"too small for what is left of the {solution.budget.calendar.word} ({allowed}): jobs queue{why}",
            Tone.BAD,
        )
    if not kept_up:
        return f"no job has to wait for money now, but if jobs keep coming at this rate, {needs}", Tone.PLAIN
    if solution.surplus:
        room = frontier.at(solution.budget.amount).room
        why = "nothing faster is worth its price" if room else "pools have no room for more"
        return f"more than can be used: {why}", Tone.PLAIN
    observes = ", only observes" if solution.budget.mode is Mode.OBSERVE else ""
    small = frontier.cheapest > solution.budget.amount
    whole = f"; a whole {solution.budget.calendar.word} of such jobs needs {frontier.cheapest}" if small else ""
    return f"used in full{observes}{whole}", Tone.PLAIN


def _operator(snapshot: Snapshot) -> list[Block]:
    """Make a sentence on the operator's global limits and what counts against them."""
    if snapshot.limits == NO_LIMITS:
        return []
    room = OperatorRoom(snapshot)
    has = f"it has {count(room.nodes, 'node')}, which cost up to {room.hourly}"
    return [Paragraph(f"The operator's own limits are {in_words(snapshot.limits)} in all; {has}.")]


def _pools(report: PlanReport) -> list[Block]:
    """Make a line for each pool that is too small for its demand, and for each pool whose next nodes are expected
    late.
    """
    small = [pool_in_words(name, verdict) for name, verdict in sorted(report.plan.pools.items())]
    late_ones = [f"pool {late(name, wait).sentence()}" for name, wait in report.late_pools.items()]
    found = (("Pools that are too small", small), ("Pools whose nodes come late", late_ones))
    return [
        block
        for title, lines in found
        if lines
        for block in (Heading(title), Items(tuple(Item("!", line) for line in lines)))
    ]


def pool_in_words(name: str, verdict: PoolVerdict) -> str:
    """Return the limit that binds, and the worth of one more node."""
    nodes = count(verdict.nodes, "node")
    match verdict.limit:
        case Limit.MAX_NODES:
            full = f"all {nodes} of spec.maxNodes are wanted" if verdict.nodes != 1 else "its only node is wanted"
        case Limit.STOCK:
            full = f"the cloud has no more than {nodes} now"
        case Limit.QUOTA:
            full = f"the cloud's quota allows no more than {nodes}"
        case Limit.OPERATOR:
            full = f"the operator's own limits allow no more than {nodes}"
    if not verdict.node_scarcity.micros_per_hour:
        return f"pool {name}: {full}, and jobs have to wait for it"
    least, waits = ("at least ", "; jobs have to wait for it") if verdict.short else ("", "")
    worth = f"{least}{verdict.node_scarcity} beyond its price"
    if verdict.node_scarcity > verdict.payable:
        worth = f"more than the {verdict.payable} that its budget may spend"
    return f"pool {name}: {full}; one more node is worth {worth}{waits}"


def shown_jobs(report: PlanReport, before: PlanReport | None = None) -> list[Job]:
    """Return the unfinished jobs in this order: changed since ``before``, with an action, waiting, running."""
    known = report.snapshot.jobs if before is None else before.snapshot.jobs
    with_action = {action.subject for action in report.actions}

    def order(job: Job) -> tuple[bool, bool, bool, int, JobId]:
        no_action = f"{job.namespace}/{job.name}" not in with_action
        return known.get(job.id) == job, no_action, job.allocation is not None, job.created, job.id

    return sorted((job for job in report.snapshot.jobs.values() if job.finish is None), key=order)


def _jobs(answer: PlanAnswer, most: int) -> list[Block]:
    report, jobs = answer.report, shown_jobs(answer.report, answer.before)
    if not jobs:
        return [Heading("Jobs"), Paragraph("No job runs or waits.")]
    columns = (
        TableColumn("JOB"),
        TableColumn("STATE"),
        TableColumn("HAS", optional=True),
        TableColumn("WANT"),
        TableColumn("LEFT", right=True),
        TableColumn("ENDS ABOUT", optional=True),
        TableColumn("WHY", elastic=True),
    )
    rows = [_job(job, report) for job in jobs[: most or None]]
    blocks: list[Block] = [Heading("Jobs"), DocumentTable(columns, tuple(rows))]
    if len(rows) < len(jobs):
        blocks.append(Paragraph(f"and {len(jobs) - len(rows)} more: --jobs 0 or -o json shows all", Tone.FAINT))
    return blocks


def _job(job: Job, report: PlanReport) -> tuple[TableCell, ...]:
    verdict = report.plan.jobs.get(job.id)
    left = None if verdict is None else verdict.remaining_seconds
    return row(
        f"{job.namespace}/{job.name}",
        job_state(job),
        "-" if job.allocation is None else name(job.allocation.option),
        "-" if verdict is None or verdict.option is None else name(verdict.option),
        output.duration(left),
        "-" if left is None or verdict is None else output.when(after(report.snapshot.now, verdict.starts_in + left)),
        "" if verdict is None else verdict.reason.message,
    )


def _problems(report: PlanReport) -> list[Block]:
    if not report.snapshot.problems:
        return []
    lines = []
    for problem in report.snapshot.problems:
        name_and_field = "/".join(filter(None, (problem.namespace, problem.name))), problem.field
        lines.append(f"{problem.kind} {' '.join(filter(None, name_and_field))}: {problem.message}")
    return [Heading("Problems"), Items(tuple(Item("!", line) for line in lines))]
