"""The parts of the page: the documents of ``plan`` and ``costs`` as they print them, and what both leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import click

from charterer.cli.costs.command import CostQuestion, costs_answer
from charterer.cli.costs.costs_json import costs_json
from charterer.cli.dashboard.decisions import decisions_json
from charterer.cli.dashboard.lanes import lane_json
from charterer.cli.plan.own_plan import own_plan_json
from charterer.cli.plan.plan_answer import PlanAnswer
from charterer.cli.plan.plan_json import plan_json
from charterer.cli.shared.leader import stopped_until_resumed
from charterer.cli.shared.output import JsonValue
from charterer.cli.shared.own_jobs import OwnJobs
from charterer.cli.shared.plan_report import plan_report
from charterer.cluster.client import RawObject
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.offline import snapshot_of
from charterer.controller.status.jobs import job_state
from charterer.cost_record.places import RecordUnavailable
from charterer.domain.billing import opening_in
from charterer.domain.budget import Budget
from charterer.domain.job import Job
from charterer.domain.jobs.job_cost import job_cost
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, format_instant, seconds_between
from charterer.ledger.balance import current_rate
from charterer.sentences import similar_names

_RECORD_FRESH_SECONDS: Final = 300.0
"""Seconds after which a record of costs, which may be of thousands of files, is read again."""

Parts = Mapping[str, JsonValue]
"""The parts of the page by name. A lane is a part of its own, ``lane:<uid>``; ``lanes`` has their order."""


@dataclass(frozen=True, slots=True)
class PageQuestion:
    """What is shown: ``budget``, None for all; ``record`` of costs, empty for none; ``by`` what costs are summed."""

    budget: str | None = None
    record: str = ""
    by: tuple[str, ...] = ("namespace",)


@dataclass(frozen=True, slots=True)
class Sighting:
    """The cluster as it was read. ``trouble``: why nobody acts on it; ``warnings``: what else a person should know."""

    state: ClusterState
    now: Instant
    trouble: str = ""
    events: Sequence[RawObject] = ()
    warnings: Sequence[str] = field(default=())


class MonthCosts:
    """This month's costs, as ``charterer costs`` has them. A record of costs is read again after five minutes."""

    def __init__(self, question: PageQuestion) -> None:
        budgets = () if question.budget is None else (question.budget,)
        self._asked = CostQuestion(None, question.record, budgets, question.by, share_waste=False, recorded_only=False)
        self._read: Instant | None = None
        self._known: tuple[JsonValue, str] = None, ""

    def at(self, snapshot: Snapshot, now: Instant) -> tuple[JsonValue, str]:
        """The document, None where it cannot be had; and a sentence on why, empty if it can."""
        fresh = self._read is not None and seconds_between(self._read, now) < _RECORD_FRESH_SECONDS
        if not fresh or not self._asked.record:
            self._read = now
            try:
                self._known = costs_json(costs_answer(self._asked, snapshot, now)), ""
            except click.ClickException as error:
                self._known = None, error.message
            except RecordUnavailable as error:
                self._known = None, str(error)
        return self._known


def cluster_parts(seen: Sighting, question: PageQuestion, month: MonthCosts | None = None) -> Parts:
    """The parts for somebody who may read the whole cluster. ClickException for a budget that does not exist.

    ``month``: what the same question was told of costs before.
    """
    snapshot, now = snapshot_of(seen.state, seen.now), seen.now
    budgets = _chosen(snapshot, question)
    report = plan_report(snapshot)
    plain = plan_json(PlanAnswer(report))
    jobs = [job for job in snapshot.jobs.values() if question.budget in (None, job.budget)]
    if question.budget is not None:
        plain |= {key: _of_budget(plain[key], key, question.budget) for key in ("budgets", "classes", "jobs")}
    lanes = {}
    for job in _by_age(jobs):
        cost = job_cost(job, snapshot.rentals, now).decimal()
        lanes[f"lane:{job.id}"] = lane_json(job, str(job_state(job)), cost, now)
    costs, lacking = (month or MonthCosts(question)).at(snapshot, now)
    none = "" if snapshot.budgets else "no GPUBudget is in this cluster that can be used, so nothing is rented"
    said = [none, stopped_until_resumed(seen.state.stop), *seen.warnings, lacking]
    return {
        "reading": {
            "at": format_instant(now),
            "namespace": None,
            "nobodyActs": seen.trouble or None,
            "warnings": [sentence for sentence in said if sentence],
        },
        "plan": plain,
        "budgets": [_budget_json(budget, snapshot, now) for budget in budgets],
        "costs": costs,
        "decisions": decisions_json(seen.events, jobs, only_jobs=question.budget is not None),
        "lanes": list(lanes),
        **lanes,
    }


def own_parts(own: OwnJobs, events: Sequence[RawObject], warnings: Sequence[str]) -> Parts:
    """The parts for somebody who may read one namespace: its jobs, from what the operator wrote there."""
    views = {each.job.id: each.view for each in own.jobs if each.job is not None}
    jobs = _by_age([each.job for each in own.jobs if each.job is not None])
    lanes = {}
    for job in jobs:
        view = views[job.id]
        cost = None if view.cost is None else view.cost.decimal()
        lanes[f"lane:{job.id}"] = lane_json(job, str(view.state or "new"), cost, own.now)
    unread = [f"TrainingJob {each.namespace}/{each.name} cannot be read" for each in own.jobs if each.job is None]
    return {
        "reading": {
            "at": format_instant(own.now),
            "namespace": own.namespace,
            "nobodyActs": None,
            "warnings": [*warnings, *unread],
        },
        "plan": own_plan_json(own),
        "budgets": [],
        "costs": None,
        "decisions": decisions_json(events, jobs, only_jobs=False),
        "lanes": list(lanes),
        **lanes,
    }


def _chosen(snapshot: Snapshot, question: PageQuestion) -> list[Budget]:
    if question.budget is not None and question.budget not in snapshot.budgets:
        raise click.UsageError(f"no GPUBudget {question.budget}: {similar_names(question.budget, snapshot.budgets)}")
    return [budget for name, budget in sorted(snapshot.budgets.items()) if question.budget in (None, name)]


def _by_age(jobs: Sequence[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: (-job.created, job.namespace, job.name))


def _of_budget(rows: JsonValue, key: str, budget: str) -> JsonValue:
    assert isinstance(rows, list)
    return [row for row in rows if row["name" if key == "budgets" else "budget"] == budget]


def _budget_json(budget: Budget, snapshot: Snapshot, now: Instant) -> JsonValue:
    """The budget's period, what its nodes cost now, and the days that its status keeps."""
    balance, budget = budget.balance, budget.in_period_of(now)
    start, end = budget.period
    return {
        "name": budget.id,
        "timeZone": budget.time_zone,
        "start": format_instant(start),
        "end": format_instant(end),
        "since": format_instant(max(start, budget.created)),
        "aim": budget.aim.decimal(),
        "opening": opening_in(budget, start).decimal(),
        "hourlyNow": current_rate(budget.id, snapshot.rentals.values()).decimal(),
        "days": [
            {
                "start": format_instant(day.start),
                "spentFor": {cause.value: amount.decimal() for cause, amount in day.by_cause.items()},
                "namespaces": {name: amount.decimal() for name, amount in day.by_namespace.items()},
            }
            for day in (() if balance is None else balance.costs.days)
        ],
    }
