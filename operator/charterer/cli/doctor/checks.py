"""The checks, as functions of the objects that were read. Each finding says that something is right, or what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from charterer.api.words.conditions import CONDITION_REASONS, CONDITION_TYPES
from charterer.api.words.objects import BUDGET_STATES, POOL_SET_STATES, POOL_STATES
from charterer.cli.doctor.finding import Finding, condition_of, remedy_of
from charterer.cli.shared.formatting import when
from charterer.cli.shared.leader import MAY_LEAD_SECONDS, LeaderSeen
from charterer.cluster.client import RawObject
from charterer.cluster.kinds import TRAINING_JOBS
from charterer.controller.snapshot.by_id import budgets_by_id
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.payers import budgets_by_namespace, overlaps_among, payers_of
from charterer.controller.status.budget_amounts import why_penniless
from charterer.controller.status.conditions import stop_in_words
from charterer.domain.budget import Budget, Mode
from charterer.domain.money import Money
from charterer.domain.pool import Pool
from charterer.domain.reasons.facts_of_waits import NoPoolSelected
from charterer.domain.snapshot import NO_LIMITS, OperatorLimits, Stop
from charterer.domain.spending.budget_tree import BudgetTree, budget_tree
from charterer.policy.budgets.reasons import of_share
from charterer.policy.nodes import operator_limits
from charterer.policy.options.pool_selection import no_pool
from charterer.sentences import count, names

_NAMED = 5
"""Namespaces named of one budget; of more, the number is said."""


@dataclass(frozen=True, slots=True)
class Right:
    """Whether the caller may list all objects of a kind."""

    resource: str
    allowed: bool


def check_leader(leader: LeaderSeen | None) -> Finding:
    """Whether an operator leads; None: the Lease may not be read."""
    if leader is None:
        return Finding(
            "leader",
            "Lease charterer",
            "may not be read, so it is not known whether an operator leads",
            "bind ClusterRole charterer-view, which allows it",
        )
    if leader.trouble:
        where = leader.namespace or "NAMESPACE"
        return Finding(
            "leader",
            "nobody leads:",
            leader.trouble,
            f"kubectl -n {where} get pods, and read the operator's log; rented nodes are billed until it runs again",
        )
    renewed = f"it renewed its Lease in the last {MAY_LEAD_SECONDS:.0f} s"
    return Finding("leader", leader.holder, f"leads, in namespace {leader.namespace}: {renewed}")


def check_stopped(stop: Stop | None) -> Iterable[Finding]:
    """Whether a person has stopped the operator."""
    if stop is not None:
        yield Finding("stop", "a person", f"has stopped the operator: {stop_in_words(stop)}", "charterer resume")


def check_limits(limits: OperatorLimits) -> Iterable[Finding]:
    """The operator's own limits."""
    if limits != NO_LIMITS:
        yield Finding(
            "limits", "the operator", f"may have {operator_limits.in_words(limits)} in all (chart values limits)"
        )


def check_held_prices(raw: Iterable[RawObject]) -> Iterable[Finding]:
    """Pools whose price moved too far to be believed."""
    for item in raw:
        held = condition_of(item, "PriceHeld")
        if held is not None and held.get("status") == "True":
            what, _, remedy = str(held.get("message", "")).partition(": ")
            yield Finding("prices", f"GPUPool {item['metadata']['name']}", f"holds a price: {what}", remedy)


def check_commitments(pools: Iterable[RawObject], budgets: Iterable[RawObject]) -> Iterable[Finding]:
    """Committed pools whose nodes are not all rented, and budgets that cannot pay for what they are committed to."""
    kinds = (("GPUPool", "CommitmentKept", pools), ("GPUBudget", "CommitmentsCovered", budgets))
    for kind, aspect, raw in kinds:
        for item in raw:
            found = condition_of(item, aspect)
            if found is not None and found.get("status") == "False":
                known = CONDITION_REASONS.get(str(found.get("reason"))) or CONDITION_TYPES[aspect]
                subject = f"{kind} {item['metadata']['name']}"
                text = f"is committed: {found.get('message', '')}"
                yield Finding("commitments", subject, text, remedy_of(known.remedy, f"{kind.lower()}s"))


def check_preflights(raw: Iterable[RawObject]) -> Iterable[Finding]:
    """Pools in which something would fail once nodes are rented, other than what keeps them from being ready."""
    for item in raw:
        found, ready, name = condition_of(item, "Preflight"), condition_of(item, "Ready"), item["metadata"]["name"]
        said = "" if ready is None or ready.get("status") == "True" else str(ready.get("message", ""))
        if found is not None and found.get("status") == "False" and found.get("message") != f"group: {said}":
            text = f"would fail: {found.get('message', '')}"
            yield Finding("preflight", f"GPUPool {name}", text, f"correct that; charterer preflight {name} looks again")


def skipped_checks(rights: Iterable[Right], role: str) -> Finding:
    """The checks that were left out, because they need the rights that the caller lacks."""
    missing = names(right.resource for right in rights if not right.allowed)
    text = (
        f"leader, pools, prices, budgets and namespaces: you may not list {missing} in the whole cluster; somebody "
        f"with a ClusterRoleBinding to {role} can run them"
    )
    return Finding("skipped", "the checks of", text, skipped=True)


def check_rights(rights: Sequence[Right]) -> Finding:
    """That the caller may read everything."""
    return Finding("permissions", "you", f"may read all {len(rights)} kinds that plan and explain read")


def check_pools(pools: Mapping[str, Pool], raw: Iterable[RawObject]) -> Iterable[Finding]:
    """Whether each pool is ready and has a price. ``raw``: the objects, for their conditions."""
    raw = list(raw)
    if not raw:
        yield Finding("pools", "no GPUPool", "exists, so nothing can be rented", "apply one: docs/clouds/README.md")
    for item in raw:
        name = item["metadata"]["name"]
        subject, pool = f"GPUPool {name}", pools.get(name)
        ready, state = condition_of(item, "Ready"), str((item.get("status") or {}).get("state"))
        if ready is None:
            yield Finding(
                "pools",
                subject,
                "no operator has looked at it yet",
                "wait half a minute; see the line about the leader",
            )
        elif ready.get("status") != "True":
            text = f"is {state}: {ready.get('message') or ready.get('reason')}"
            known = POOL_STATES.get(state)
            yield Finding("pools", subject, text, remedy_of("" if known is None else known.remedy, "gpupools"))
        elif pool is None or pool.quote is None or pool.offering is None:
            yield Finding("pools", subject, "its price is not known", "set spec.price.hourly")
        else:
            offer = f"{pool.offering.gpus_per_node} x {pool.offering.gpu_type} at {pool.quote.price}"
            yield Finding(
                "pools", subject, f"is {state}: {offer} ({pool.quote.source}, since {when(pool.quote.as_of)})"
            )


def check_pool_sets(raw: Iterable[RawObject]) -> Iterable[Finding]:
    """Whether the GPUPools of each GPUPoolSet are as it declares them."""
    for item in raw:
        subject, status = f"GPUPoolSet {item['metadata']['name']}", item.get("status") or {}
        ready = condition_of(item, "Ready")
        if ready is None:
            yield Finding("pools", subject, "no operator has looked at it yet", "wait half a minute")
        elif ready.get("status") == "True":
            yield Finding("pools", subject, f"is Ready: {ready.get('message')}, {status.get('readyPools', 0)} ready")
        else:
            state = str(status.get("state"))
            known = CONDITION_REASONS.get(str(ready.get("reason"))) or POOL_SET_STATES.get(state)
            text = f"is {state}: {ready.get('message') or ready.get('reason')}"
            yield Finding("pools", subject, text, remedy_of("" if known is None else known.remedy, "gpupoolsets"))


def check_prices(raw: Iterable[RawObject]) -> Iterable[Finding]:
    """Whether the operator has fresh prices, as it says in the condition of each GPUBudget."""
    said = [(item["metadata"]["name"], condition_of(item, "PriceDataFresh")) for item in raw]
    stale = {found.get("message", "") for _, found in said if found is not None and found.get("status") == "False"}
    for message in sorted(stale):
        yield Finding(
            "prices",
            "GPUPools",
            f"lack prices: {message}",
            "kubectl describe gpupools; without a fresh price nothing is rented",
        )
    if said and not stale and any(found is not None for _, found in said):
        yield Finding("prices", "GPUPools", "have known prices, less than 15 minutes old")


def check_cost_record(raw: Iterable[RawObject]) -> Iterable[Finding]:
    """Whether what rentals cost is put on record, as the condition of each GPUBudget says."""
    said = [found for item in raw if (found := condition_of(item, "CostsRecorded")) is not None]
    refused = {str(found.get("message", "")) for found in said if found.get("status") == "False"}
    remedy = remedy_of(CONDITION_REASONS["RecordRefuses"].remedy, "gpubudgets")
    for message in sorted(refused):
        yield Finding("costs", "the record of costs", f"takes nothing: {message}", remedy)
    if said and not refused:
        yield Finding("costs", "the record of costs", "takes what rentals cost")


def check_budgets(state: ClusterState, raw: Iterable[RawObject]) -> Iterable[Finding]:
    """Budgets that cannot act, and namespaces that several of them select. ``raw``: the objects, for conditions."""
    objects = {item["metadata"]["name"]: item for item in raw}
    budgets = sorted(state.budgets.values(), key=lambda budget: (budget.created, budget.id))
    if not budgets:
        yield Finding("budgets", "no GPUBudget", "exists, so nothing is rented", "apply one: docs/budgets.md")
    by_namespace = budgets_by_namespace(state.budgets, state.namespaces)
    shared_out = budgets_by_id(state.budgets)
    tree = budget_tree(shared_out, state.problems)
    for budget in budgets:
        if budget.id in tree.below and not budget.deleting:
            yield _parent(shared_out[budget.id], tree)
        if (fault := tree.faults.get(budget.id)) is not None:
            remedy = "set spec.parent to a GPUBudget that exists and is not below this one, or correct that one"
            yield Finding("budgets", f"GPUBudget {budget.id}", fault.sentence(), remedy)
            continue
        lacking = no_pool(budget, {pool.id: pool for pool in state.pools.values()})
        selected = [name for name, selecting in by_namespace.items() if budget in selecting]
        paid = [name for name in selected if by_namespace[name][0] is budget]
        if selected or budget.id not in tree.below:
            yield from _budget(shared_out[budget.id], selected, paid, lacking, objects.get(budget.id, {}))
    if shared := overlaps_among(state.budgets, state.namespaces):
        said = [f"{_namespaces(each.namespaces)}: {each.payer()}" for each in shared]
        yield Finding(
            "budgets",
            f"GPUBudgets {', '.join(sorted({budget.id for each in shared for budget in each.budgets}))}",
            f"select the same namespaces: {'; '.join(said)}",
            "change a namespaceSelector so that each namespace has one budget: no budget counts what another one pays",
        )


def _parent(budget: Budget, tree: BudgetTree) -> Finding:
    """The budgets below one, and what all of them may spend."""
    below, share = tree.below[budget.id], budget.share
    text = f"is above {count(len(below), 'GPUBudget')} ({names(below, _NAMED)})"
    if share is not None:
        text += f": {share.in_all} a month for all of them"
        if share.below > share.in_all:
            text += f", who ask for {share.below}: each has its part"
        if budget.lends:
            text += "; they lend each other what they are not forecast to need"
    return Finding("budgets", f"GPUBudget {budget.id}", text)


def _loan(budget: Budget, shown: RawObject) -> str:
    """A loan of the budget's status, as a part of a sentence."""
    amount = Money.parse(shown["amount"])
    return (
        f", with {amount} of {shown['lender']}"
        if shown["borrower"] == budget.id
        else (f", without {amount} lent to {shown['borrower']}")
    )


def _budget(
    budget: Budget, selected: Sequence[str], paid: Sequence[str], lacking: NoPoolSelected | None, item: RawObject
) -> Iterable[Finding]:
    """Nothing of a budget that only selects namespaces for which older ones pay: that is a finding of all of them."""
    subject = f"GPUBudget {budget.id}"
    if budget.deleting:
        yield Finding("budgets", subject, "is being deleted, and pays for nothing new", "wait until its rentals end")
    elif not selected:
        yield Finding(
            "budgets", subject, "selects no namespace", "label namespaces as its namespaceSelector says, or change it"
        )
    elif lacking is not None:
        remedy = "label a GPUPool as its poolSelector says, or change it"
        yield Finding("budgets", subject, f"can rent nothing: {lacking.sentence()}", remedy)
    elif not budget.amount.micros:
        text = "has an amount of 0: nothing can be rented" if budget.share is None else why_penniless(budget)
        yield Finding("budgets", subject, text, "set spec.amount")
    elif paid and (ready := condition_of(item, "Ready")) is not None and ready.get("status") == "False":
        state = str((item.get("status") or {}).get("state"))
        known = CONDITION_REASONS.get(str(ready.get("reason"))) or BUDGET_STATES.get(state)
        text = f"is {state}: {ready.get('message') or ready.get('reason')}"
        yield Finding("budgets", subject, text, remedy_of("" if known is None else known.remedy, "gpubudgets"))
    elif paid:
        mode = "observes only (spec.mode)" if budget.mode is Mode.OBSERVE else "pays"
        amount = str(budget.amount)
        if budget.currency is not None:
            amount += f" ({budget.currency.amount(budget.amount)})"
        part = f" (of which {budget.counted} count in its first month)" if budget.prorated else ""
        part += f" ({why})" if (why := of_share(budget)) else ""
        part += "".join(_loan(budget, loan) for loan in (item.get("status") or {}).get("loans") or ())
        yield Finding("budgets", subject, f"{mode}, {amount} a month{part}, for {_namespaces(paid)}")
    rate = condition_of(item, "CurrencyRateCurrent")
    if rate is not None and rate.get("status") == "False":
        known = CONDITION_REASONS.get(str(rate.get("reason")))
        remedy = remedy_of("" if known is None else known.remedy, "gpubudgets")
        yield Finding("budgets", subject, f"has an old rate: {rate.get('message') or rate.get('reason')}", remedy)


def check_namespaces(state: ClusterState) -> Iterable[Finding]:
    """Namespaces with jobs that no budget pays for."""
    paid = payers_of(state.budgets, state.namespaces).keys()
    jobs = [decoded.job for decoded in state.jobs.values() if decoded.job.finish is None]
    unpaid = sorted({job.namespace for job in jobs} - paid)
    for namespace in unpaid:
        here = sum(job.namespace == namespace for job in jobs)
        yield Finding(
            "namespaces",
            f"namespace {namespace}",
            f"has {count(here, 'TrainingJob')} and no GPUBudget selects it",
            f"kubectl label namespace {namespace} ... as the namespaceSelector of a GPUBudget says",
        )
    if not jobs:
        yield Finding("namespaces", "TrainingJobs", "are all finished: none waits for a budget")
    elif not unpaid:
        yield Finding("namespaces", "TrainingJobs", "that are unfinished are all in namespaces that a budget pays for")


def check_objects(state: ClusterState) -> Iterable[Finding]:
    """Objects that cannot be used; of TrainingJobs the checks of jobs say it."""
    for problem in state.problems:
        if problem.kind == TRAINING_JOBS.name:
            continue
        name = f"{problem.namespace}/{problem.name}" if problem.namespace else problem.name
        field = f"{problem.field}: " if problem.field else ""
        yield Finding(
            "objects", f"{problem.kind} {name}", f"cannot be used: {field}{problem.message}", "correct the field"
        )


def _namespaces(those: Sequence[str]) -> str:
    return f"namespace{'' if len(those) == 1 else 's'} {names(those, _NAMED)}"
