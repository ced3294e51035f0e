"""The checks as functions of objects that were read. Each finding says that something is right, or what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from charterer.api.decode import MULTIKUEUE
from charterer.api.models.base import ConditionStatus
from charterer.api.models.trainingjob_status import JobState
from charterer.api.names import KUEUE_CHECK, KUEUE_CONTROLLER, ConditionType
from charterer.api.words.conditions import CONDITION_REASONS, CONDITION_TYPES
from charterer.api.words.jobs import JOB_STATES, REASONS
from charterer.api.words.words import BUDGET_STATES, POOL_SET_STATES, POOL_STATES
from charterer.cluster.client import RawObject
from charterer.cluster.kinds import TRAINING_JOBS
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.observe import budgets_by_id
from charterer.controller.snapshot.payers import budgets_by_namespace, overlaps_among, payers_of
from charterer.controller.status.budgets_and_pools import why_penniless
from charterer.controller.status.conditions import stop_in_words
from charterer.domain.budget import Budget, Mode
from charterer.domain.budget_tree import BudgetTree, budget_tree
from charterer.domain.money import Money, Price
from charterer.domain.node_demands import NodeDemands, OfferedNode, Requirement, Toleration, misfits, passes
from charterer.domain.offered_node import offered_node
from charterer.domain.pool import Pool
from charterer.domain.reasons.waits import NoPoolSelected
from charterer.domain.snapshot import NO_LIMITS, OperatorLimits, Snapshot, Stop
from charterer.domain.target import Target
from charterer.domain.time import Instant, seconds_between
from charterer.lifecycle.adopted import not_adopted_because
from charterer.policy.budgets.solution import of_share
from charterer.policy.nodes import limits as operator_limits
from charterer.policy.options.market import no_pool
from charterer.sentences import count, names
from charterer.tools.commands.shared.adopted_objects import Queues, checks_of, flavors_of
from charterer.tools.commands.shared.leader import MAY_LEAD_SECONDS, LeaderSeen
from charterer.tools.commands.shared.one_namespace import OwnJob, OwnJobs
from charterer.tools.commands.shared.output import when

# One line of ``charterer doctor``.


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check. ``remedy`` says what to do, and is empty if all is well.

    ``skipped`` means that nothing was checked. ``lost`` is the hourly cost while nobody acts.
    """

    check: str
    subject: str
    text: str
    remedy: str = ""
    skipped: bool = False
    lost: Price | None = None


def condition_of(item: RawObject, kind: str) -> RawObject | None:
    """Return the condition of this type in the object's status, or None if there is none."""
    conditions: Sequence[RawObject] = (item.get("status") or {}).get("conditions") or ()
    return next((found for found in conditions if found.get("type") == kind), None)


def remedy_of(sentence: str, plural: str) -> str:
    """Return the remedy as part of a sentence.

    If there is no remedy, return the command that shows the objects named ``plural``.
    """
    if "`charterer doctor`" in sentence:
        return "if it lasts, see the line about the leader"
    return f"{sentence[:1].lower()}{sentence[1:].rstrip('.')}" or f"kubectl describe {plural}"


# Checks of team objects that ask to be adopted.


_ADOPTED_SECONDS = 30.0
"""Seconds after which an object that is held should have a TrainingJob."""


def check_adoption(snapshot: Snapshot, leader: LeaderSeen | None) -> Iterable[Finding]:
    """Report labelled objects that are not adopted. Also report objects that are held while no operator leads."""
    adopted = [job.adopted for job in snapshot.jobs.values() if job.adopted is not None and job.finish is None]
    waiting = [each for each in snapshot.candidates if each.target.ended is None and not _let_through(each.target)]
    for each in waiting:
        subject = f"{each.target.ref.kind} {each.target.namespace}/{each.target.ref.name}"
        why = not_adopted_because(each, snapshot)
        if why:
            remedy = "correct that, or take the label charterer.dev/adopt off and set spec.suspend as you want it"
            yield Finding("adoption", subject, f"is not adopted: {why}", remedy)
        else:
            yield from check_held((each.target,), frozenset(), snapshot.now)
    held = [target for target in (*adopted, *[each.target for each in waiting]) if target.suspended]
    if held and leader is not None and leader.trouble:
        first = f"{held[0].ref.kind} {held[0].namespace}/{held[0].ref.name}"
        subject = f"{first} and {count(len(held) - 1, 'other object')}" if len(held) > 1 else first
        remedy = "start the operator, or take their labels charterer.dev/adopt off and set spec.suspend to false"
        yield Finding("adoption", subject, "is held, and nobody leads who would start it", remedy)
    if adopted:
        yield Finding("adoption", count(len(adopted), "object"), "adopted")


def check_held(targets: Iterable[Target], recorded: AbstractSet[str], now: Instant) -> Iterable[Finding]:
    """Report held objects without a TrainingJob, which nobody starts.

    ``recorded`` has the uids of objects that have one.
    """
    for target in targets:
        waits = seconds_between(target.created, now) > _ADOPTED_SECONDS and target.ref.uid not in recorded
        if target.held and target.ended is None and waits:
            kind, name = target.ref.kind, target.ref.name
            remedy = f"kubectl -n {target.namespace} describe {kind.lower()} {name}: its Events say why"
            text = "is held, and no TrainingJob was made for it"
            yield Finding("adoption", f"{kind} {target.namespace}/{name}", text, remedy)


def _let_through(target: Target) -> bool:
    """Return whether the object is in a Kueue queue that has started it or needs no GPUs for it."""
    return target.queued and (not target.pods or not target.suspended)


# Checks of Kueue queues that use Charterer's AdmissionCheck.


_EXCLUDE: Final = {
    "kueue.x-k8s.io/provisioning-request": "by which the cluster autoscaler adds nodes of its own",
    MULTIKUEUE: "by which its jobs run in another cluster: nothing is rented for them here, and they wait",
}
"""Controllers of admission checks that conflict with Charterer's, and their effect."""
_TAKE_OUT = f"take {KUEUE_CHECK} out of its spec.admissionChecksStrategy"


def check_queues(queues: Queues | None, leader: LeaderSeen | None) -> Iterable[Finding]:
    """Report for each queue whether the operator answers its check, and whether another controller adds nodes."""
    if queues is None:
        yield Finding("queues", "Kueue's queues", "may not be read: they were left out", skipped=True)
        return
    check = queues.check(KUEUE_CHECK)
    controller = "" if check is None else (check.get("spec") or {}).get("controllerName", "")
    active = None if check is None else condition_of(check, "Active")
    for queue in queues.queues:
        subject = f"ClusterQueue {queue['metadata']['name']}"
        waits = f"asks AdmissionCheck {KUEUE_CHECK}, and every job in it waits:"
        if check is None:
            remedy = f"install the chart with kueue.enabled=true, or {_TAKE_OUT}"
            yield Finding("queues", subject, f"{waits} there is none of that name", remedy)
        elif controller != KUEUE_CONTROLLER:
            text = f"{waits} its controllerName is {controller}, not {KUEUE_CONTROLLER}"
            yield Finding("queues", subject, text, f"delete that AdmissionCheck and upgrade the chart, or {_TAKE_OUT}")
        elif leader is not None and leader.trouble:
            remedy = f"start the operator, or {_TAKE_OUT}"
            yield Finding("queues", subject, f"{waits} no operator answers it ({leader.trouble})", remedy)
        elif active is None or active.get("status") != "True":
            remedy = "wait half a minute"
            yield Finding("queues", subject, f"{waits} the operator has not made it active yet", remedy)
        else:
            yield Finding("queues", subject, f"asks AdmissionCheck {KUEUE_CHECK}, and the operator answers it")
        for other in checks_of(queue):
            found = queues.check(other)
            does = None if found is None else _EXCLUDE.get((found.get("spec") or {}).get("controllerName", ""))
            if does is not None:
                text = f"asks AdmissionCheck {other}, too, {does}"
                yield Finding("queues", subject, text, f"keep only one of {other} and {KUEUE_CHECK} in the queue")


def check_flavors(queues: Queues | None, pools: Iterable[Pool]) -> Iterable[Finding]:
    """Report ResourceFlavors by which Kueue lets pods of others onto rented nodes, or keeps a queue's pods off them.

    A pool whose nodes are not known yet may have nodes for any label.
    """
    if queues is None:
        return
    known = [(pool, offered_node(pool)) for pool in pools]
    offered = [(pool, node) for pool, node in known if node is not None]
    asked = frozenset[str]().union(*map(flavors_of, queues.queues))
    for flavor in queues.flavors:
        spec, name = flavor.get("spec") or {}, str(flavor["metadata"]["name"])
        labels: Mapping[str, str] = spec.get("nodeLabels") or {}
        asks = NodeDemands(every=tuple([Requirement(key, "In", (value,)) for key, value in labels.items()]))
        fits = [(pool, node) for pool, node in offered if _fit(asks, (_ANY_TAINT,), node)]
        if name in asked and known and len(offered) == len(known) and not fits:
            wanted = ", ".join(requirement.text for requirement in asks.every)
            text = f"has spec.nodeLabels {wanted}, which nodes of no GPUPool have: {_NOWHERE}"
            yield Finding("queues", f"ResourceFlavor {name}", text, "take the labels out: Charterer places the pods")
        tolerations = [_toleration(each) for each in spec.get("tolerations") or ()]
        for pool, node in fits:
            taints = [taint.text for taint in node.taints if not passes(taint)]
            if taints and pool.cloud.rents and _fit(asks, tolerations, node):
                text = f"has spec.tolerations for {names(taints)}, the taint of GPUPool {pool.id}: {_TOLERATED}"
                yield Finding("queues", f"ResourceFlavor {name}", text, _LEAVE_TO_CHARTERER)
                break


_NOWHERE: Final = "the pods that Kueue sends there get no node"
_TOLERATED: Final = (
    "Kueue gives them to every pod of its jobs, and those that Charterer did not place may take room on rented nodes, "
    "or are refused if the chart's keepOff.taint is that taint"
)
_LEAVE_TO_CHARTERER: Final = "take that toleration out: Charterer gives it to the pods that it places"
_ANY_TAINT: Final = Toleration(operator="Exists")


def _fit(demands: NodeDemands, tolerations: Sequence[Toleration], node: OfferedNode) -> bool:
    return not misfits(replace(demands, tolerations=tuple(tolerations), resource=node.resource), node)


def _toleration(raw: RawObject) -> Toleration:
    words = [str(raw.get(field) or "") for field in ("key", "operator", "value", "effect")]
    return Toleration(words[0], words[1] or "Equal", *words[2:])


# Checks of one namespace's jobs and profiles, from their status.


@dataclass(frozen=True, slots=True)
class OwnReading:
    """A namespace's TrainingJobs, SpeedupProfiles, and labelled objects that have not ended.

    Kinds that the account may not read are empty.
    """

    jobs: OwnJobs
    profiles: Sequence[RawObject] = ()
    targets: Sequence[Target] = ()


NOTHING_OWN: Final = OwnReading(OwnJobs("", (), Instant(0)))


class JobTally(NamedTuple):
    """Numbers of running and of waiting jobs. Jobs that need a person's action are excluded."""

    running: int = 0
    waiting: int = 0

    def __str__(self) -> str:
        """Return the counts as the end of a sentence."""
        if not (self.running or self.waiting):
            return ""
        told = f": {count(self.running, 'job')} {'runs' if self.running == 1 else 'run'}"
        wait = f", {self.waiting} {'waits' if self.waiting == 1 else 'wait'} for what passes by itself"
        return told + (wait if self.waiting else "")

    @classmethod
    def of(cls, own: OwnJobs) -> JobTally:
        """Count the jobs that have not ended."""
        fine = [job for job in own.jobs if not job.ended and ((found := _job(job)) is None or not found.remedy)]
        waiting = sum(job.is_waiting for job in fine)
        return cls(len(fine) - waiting, waiting)


def check_own_jobs(own: OwnJobs) -> Iterable[Finding]:
    """Report each job that needs a person or waits, and the number of other jobs."""
    others = 0
    for job in own.jobs:
        if job.ended:
            continue
        found = _job(job)
        if found is None:
            others += 1
        else:
            yield found
    where = f"namespace {own.namespace}" if own.namespace else "the cluster"
    if others or (own.namespace and not own.jobs):
        yield Finding("jobs", where, f"has {_told(own, others)}")


def _told(own: OwnJobs, others: int) -> str:
    if not own.jobs:
        return "no TrainingJob"
    return f"{count(others, 'TrainingJob')} that {'needs' if others == 1 else 'need'} nothing"


def _job(own: OwnJob) -> Finding | None:
    found = _found(own)
    holds = None if own.job is None else own.job.allocation
    if found is None or not found.remedy or holds is None or own.view.state is JobState.RUNNING:
        return found
    return replace(found, lost=holds.option.price)


def _found(own: OwnJob) -> Finding | None:
    view, subject = own.view, own.subject
    if view.state is None:
        remedy = "if it lasts for a minute, ask who runs the operator whether it leads"
        return Finding("jobs", subject, "no operator has looked at it yet", remedy)
    if view.state is JobState.CANNOT_START:
        failed = own.condition(ConditionType.FAILED)
        text = f"could not start: {'' if failed is None else failed.message}"
        return Finding("jobs", subject, text, "correct that in its template, delete it and submit it again")
    objection = own.objection
    if objection is not None and objection.status is ConditionStatus.FALSE:
        known = REASONS.get(objection.reason) or JOB_STATES[JobState.INVALID]
        return Finding("jobs", subject, f"is refused: {objection.message}", remedy_of(known.remedy, "trainingjobs"))
    if (waits := own.not_starting) is not None:
        remedy = "correct that in its template: the next run has the new one"
        return Finding("jobs", subject, f"does not start: {waits.message}", remedy)
    why = view.why or ""
    if why in REASONS and REASONS[why].needs_person:
        known = REASONS[why]
        return Finding("jobs", subject, f"({why}): {own.why}", remedy_of(known.remedy, "trainingjobs"))
    if objection is not None:
        known_word = REASONS.get(objection.reason)
        remedy = "correct the field" if known_word is None else remedy_of(known_word.remedy, "trainingjobs")
        return Finding("jobs", subject, f"is not as it says: {objection.message}", remedy)
    return Finding("jobs", subject, f"waits ({why}): {own.why}") if own.is_waiting else None


def check_own_profiles(profiles: Iterable[RawObject]) -> Iterable[Finding]:
    """Report profiles that cannot be used."""
    for item in profiles:
        ready = condition_of(item, "Ready")
        if ready is not None and ready.get("status") == "False":
            subject = f"SpeedupProfile {item['metadata']['namespace']}/{item['metadata']['name']}"
            yield Finding("profiles", subject, f"cannot be used: {ready.get('message', '')}", "correct the field")


_NAMED = 5
"""Maximum number of namespaces of a budget that a line names. Of further namespaces the line gives the number."""


@dataclass(frozen=True, slots=True)
class Right:
    """Whether the account may list all objects of a kind."""

    resource: str
    allowed: bool


def check_leader(leader: LeaderSeen | None) -> Finding:
    """Report whether an operator leads. ``leader`` is None if the account may not read the Lease."""
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
    """Report a person's stop of the operator."""
    if stop is not None:
        yield Finding("stop", "a person", f"has stopped the operator: {stop_in_words(stop)}", "charterer resume")


def check_limits(limits: OperatorLimits) -> Iterable[Finding]:
    """Report the operator's global limits."""
    if limits != NO_LIMITS:
        yield Finding(
            "limits", "the operator", f"may have {operator_limits.in_words(limits)} in all (chart values limits)"
        )


def check_held_prices(raw: Iterable[RawObject]) -> Iterable[Finding]:
    """Report pools whose new price differs too much from the last one to be used."""
    for item in raw:
        held = condition_of(item, "PriceHeld")
        if held is not None and held.get("status") == "True":
            what, _, remedy = str(held.get("message", "")).partition(": ")
            yield Finding("prices", f"GPUPool {item['metadata']['name']}", f"holds a price: {what}", remedy)


def check_commitments(pools: Iterable[RawObject], budgets: Iterable[RawObject]) -> Iterable[Finding]:
    """Report failed conditions about commitments and own Nodes.

    Three faults are reported: a committed pool whose nodes are not all rented, a budget that cannot pay for its
    commitments, and own Nodes that a pool cannot use.
    """
    pools = [*pools]
    kinds = (
        ("GPUPool", "CommitmentKept", pools, "is committed: "),
        ("GPUBudget", "CommitmentsCovered", budgets, "is committed: "),
        ("GPUPool", "NodesTakePart", pools, ""),
    )
    for kind, aspect, raw, begins in kinds:
        for item in raw:
            found = condition_of(item, aspect)
            if found is not None and found.get("status") == "False":
                known = CONDITION_REASONS.get(str(found.get("reason"))) or CONDITION_TYPES[aspect]
                subject = f"{kind} {item['metadata']['name']}"
                text = f"{begins}{found.get('message', '')}"
                yield Finding("commitments", subject, text, remedy_of(known.remedy, f"{kind.lower()}s"))


def check_preflights(raw: Iterable[RawObject]) -> Iterable[Finding]:
    """Report pools that failed their preflight, unless the condition Ready already says so."""
    for item in raw:
        found, ready, name = condition_of(item, "Preflight"), condition_of(item, "Ready"), item["metadata"]["name"]
        said = "" if ready is None or ready.get("status") == "True" else str(ready.get("message", ""))
        if found is not None and found.get("status") == "False" and found.get("message") != f"group: {said}":
            text = f"would fail: {found.get('message', '')}"
            yield Finding("preflight", f"GPUPool {name}", text, f"correct that; charterer preflight {name} looks again")


def skipped_checks(rights: Iterable[Right], role: str) -> Finding:
    """Report the checks that were skipped because the account lacks rights."""
    missing = names(right.resource for right in rights if not right.allowed)
    text = (
        f"leader, pools, prices, budgets and namespaces: you may not list {missing} in the whole cluster; somebody "
        f"with a ClusterRoleBinding to {role} can run them"
    )
    return Finding("skipped", "the checks of", text, skipped=True)


def check_rights(rights: Sequence[Right]) -> Finding:
    """Report that the account may read everything."""
    return Finding("permissions", "you", f"may read all {len(rights)} kinds that plan and explain read")


def check_pools(pools: Mapping[str, Pool], raw: Iterable[RawObject]) -> Iterable[Finding]:
    """Report whether each pool is ready and has a price. ``raw`` has the objects with their conditions."""
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
    """Report whether the GPUPools of each GPUPoolSet match its declaration."""
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
    """Report whether prices are fresh, by the condition of each GPUBudget."""
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
    """Report whether the record of costs accepts rows, by the condition of each GPUBudget."""
    said = [found for item in raw if (found := condition_of(item, "CostsRecorded")) is not None]
    refused = {str(found.get("message", "")) for found in said if found.get("status") == "False"}
    remedy = remedy_of(CONDITION_REASONS["RecordRefuses"].remedy, "gpubudgets")
    for message in sorted(refused):
        yield Finding("costs", "the record of costs", f"takes nothing: {message}", remedy)
    if said and not refused:
        yield Finding("costs", "the record of costs", "takes what rentals cost")


def check_budgets(state: ClusterState, raw: Iterable[RawObject]) -> Iterable[Finding]:
    """Report budgets that cannot act and namespaces that several budgets select.

    ``raw`` has objects with conditions.
    """
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
    """Report the budgets below this one and the amount for all of them."""
    below, share = tree.below[budget.id], budget.share
    text = f"is above {count(len(below), 'GPUBudget')} ({names(below, _NAMED)})"
    if share is not None:
        text += f": {share.in_all} a {budget.calendar.word} for all of them"
        if share.below > share.in_all:
            text += f", who ask for {share.below}: each has its part"
        if budget.lends:
            text += "; they lend each other what they are not forecast to need"
    return Finding("budgets", f"GPUBudget {budget.id}", text)


def _loan(budget: Budget, shown: RawObject) -> str:
    """Return a loan in the budget's status as part of a sentence."""
    amount = Money.parse(shown["amount"])
    return (
        f", with {amount} of {shown['lender']}"
        if shown["borrower"] == budget.id
        else (f", without {amount} lent to {shown['borrower']}")
    )


def _budget(
    budget: Budget, selected: Sequence[str], paid: Sequence[str], lacking: NoPoolSelected | None, item: RawObject
) -> Iterable[Finding]:
    """Report on a budget, unless older budgets pay for all namespaces that it selects.

    ``check_budgets`` reports overlaps.
    """
    subject, ready = f"GPUBudget {budget.id}", condition_of(item, "Ready")
    if budget.deleting:
        yield Finding("budgets", subject, "is being deleted, and pays for nothing new", "wait until its rentals end")
    elif not selected:
        yield Finding(
            "budgets", subject, "selects no namespace", "label namespaces as its namespaceSelector says, or change it"
        )
    elif lacking is not None:
        remedy = "label a GPUPool as its poolSelector says, or change it"
        yield Finding("budgets", subject, f"can rent nothing: {lacking.sentence()}", remedy)
    elif not budget.amount.micros and (ready is None or ready.get("status") != "True"):
        text = "has an amount of 0: nothing can be rented" if budget.share is None else why_penniless(budget)
        yield Finding("budgets", subject, text, "set spec.amount")
    elif paid and ready is not None and ready.get("status") == "False":
        state = str((item.get("status") or {}).get("state"))
        known = CONDITION_REASONS.get(str(ready.get("reason"))) or BUDGET_STATES.get(state)
        text = f"is {state}: {ready.get('message') or ready.get('reason')}"
        yield Finding("budgets", subject, text, remedy_of("" if known is None else known.remedy, "gpubudgets"))
    elif paid:
        mode = "observes only (spec.mode)" if budget.mode is Mode.OBSERVE else "pays"
        amount, word = str(budget.amount), budget.calendar.word
        if budget.currency is not None:
            amount += f" ({budget.currency.amount(budget.amount)})"
        part = f" (of which {budget.counted} count in its first {word})" if budget.prorated else ""
        part += f" ({why})" if (why := of_share(budget)) else ""
        part += "".join(_loan(budget, loan) for loan in (item.get("status") or {}).get("loans") or ())
        yield Finding("budgets", subject, f"{mode}, {amount} a {word}{part}, for {_namespaces(paid)}")
    rate = condition_of(item, "CurrencyRateCurrent")
    if rate is not None and rate.get("status") == "False":
        known = CONDITION_REASONS.get(str(rate.get("reason")))
        remedy = remedy_of("" if known is None else known.remedy, "gpubudgets")
        yield Finding("budgets", subject, f"has an old rate: {rate.get('message') or rate.get('reason')}", remedy)


def check_namespaces(state: ClusterState) -> Iterable[Finding]:
    """Report namespaces with jobs that no budget pays for."""
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
    """Report objects that cannot be used, except TrainingJobs, which the checks of jobs report."""
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
