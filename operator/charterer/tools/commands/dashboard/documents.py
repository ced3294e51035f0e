"""The parts of the page: the JSON documents of ``plan`` and ``costs``, and data that neither of them has."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil, isfinite
from typing import Any, Final

import aiohttp
import click

from charterer.api.names import GROUP
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import ApiError
from charterer.cluster.paths import Resource
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.offline import snapshot_of
from charterer.controller.status.jobs import job_state
from charterer.cost_record import RecordUnavailable
from charterer.domain.billing import opening_in
from charterer.domain.budget import Budget
from charterer.domain.job import Allocation, Job, RunRecord
from charterer.domain.job_records import job_cost, spans
from charterer.domain.reasons.phrases import name as option_name
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, format_instant, format_second, parse_instant, seconds_between
from charterer.ledger.balance import current_rate
from charterer.metrics import catalogue
from charterer.sentences import similar_names, visible
from charterer.tools.commands.costs.command import CostQuestion, costs_answer
from charterer.tools.commands.costs.document import costs_json
from charterer.tools.commands.plan.answer import PlanAnswer
from charterer.tools.commands.plan.one_namespace import own_plan_json
from charterer.tools.commands.plan.plan_json import plan_json
from charterer.tools.commands.shared.leader import stopped_until_resumed
from charterer.tools.commands.shared.lost import losses_json, losses_since
from charterer.tools.commands.shared.one_namespace import OwnJobs
from charterer.tools.commands.shared.output import JsonValue
from charterer.tools.commands.shared.plan_report import plan_report

# GPUs of jobs over time, from the jobs' records.


def lane_json(job: Job, state: str, cost: str | None, now: Instant) -> JsonValue:
    """Return the job's runs in order, with their GPUs. Times are milliseconds since 1970.

    ``cost`` is dollars of all runs. ``why`` of a run is the reason for its width. If a run was resized in place, its
    ``widthFrom`` is the time of the last resize. ``inPlace`` then has the total seconds of the run at each earlier
    width, because the order of these widths is not on record.
    """
    return {
        "namespace": job.namespace,
        "name": job.name,
        "state": state,
        "budget": job.budget,
        "user": job.user or None,
        "created": _milliseconds(job.created),
        "finished": None if job.finish is None else _milliseconds(job.finish.at),
        "finish": None if job.finish is None else job.finish.message or job.finish.reason,
        "cost": cost,
        "runs": [_run_json(job, *span) for span in spans(job, now)],
        "inPlace": [
            {"gpus": stretch.option.gpus, "pool": stretch.option.pool, "seconds": round(stretch.seconds)}
            for stretch in job.stretches
        ],
    }


def _run_json(job: Job, run: RunRecord | Allocation, start: Instant, end: Instant) -> JsonValue:
    option = run.option
    shown: dict[str, JsonValue] = {
        "since": _milliseconds(start),
        "gpus": option.gpus,
        "slice": option.slice or None,
        "pool": option.pool,
        "why": run.because or None,
    }
    if isinstance(run, RunRecord):
        return shown | {
            "run": run.number,
            "until": _milliseconds(end),
            "outcome": str(run.outcome),
            "message": run.message,
            "cost": None if run.cost is None else run.cost.decimal(),
        }
    made = next((found.created for found in job.runs if found.number == run.run), start)
    if job.stretches and made < start:
        shown |= {"since": _milliseconds(made), "widthFrom": _milliseconds(start)}
    because = run.withdrawn_because or run.stalled_because or run.stopped_because
    return shown | {"run": run.run, "until": None, "outcome": None, "message": because or None, "cost": None}


def _milliseconds(at: Instant) -> int:
    return at // 1_000


# Decisions and events, newest first: runs as jobs record them, and the operator's Events about other objects.


SHOWN: Final = 500
"""Maximum number of decisions on the page. The API server usually deletes Events after an hour."""
_EVENTS: Final = Resource("", "v1", "events", namespaced=True)
"""The API group of Events that ClusterRole view allows users to read."""
_OPERATOR: Final = f"reportingComponent={GROUP}/operator"


async def read_events(client: Client, namespace: str | None) -> tuple[Sequence[RawObject], str]:
    """List the operator's Events of one namespace, or of all if ``namespace`` is None.

    The second value is a sentence that says why the Events cannot be read. If they can be read, it is empty.
    """
    try:
        return (await client.list(_EVENTS.all(namespace), fields=_OPERATOR)).items, ""
    except ApiError as error:
        return (), f"decisions on nodes and pools are not shown, because Events cannot be read: {error.message}"


def decisions_json(events: Iterable[RawObject], jobs: Iterable[Job], *, only_jobs: bool) -> JsonValue:
    """Return at most ``SHOWN`` decisions. Dollars and seconds of an ended run are its cost and duration.

    ``only_jobs`` omits Events about other objects than these jobs.
    """
    jobs = tuple(jobs)
    known: dict[str, set[str]] = {}
    for job in jobs:
        known[job.id] = {run.because for run in _runs(job)} | {run.message for run in job.records}
    found = [
        (_at(event), _event_json(event))
        for event in events
        if not _is_recorded(event, known) and (not only_jobs or event["involvedObject"].get("uid") in known)
    ]
    for job in jobs:
        found += [(run.since, _said(job, run.since, "Allocated", run.because)) for run in _runs(job) if run.because]
        found += [(run.until, _end_json(job, run)) for run in job.records]
    found.sort(key=lambda each: -each[0])
    return [said for _, said in found[:SHOWN]]


def _runs(job: Job) -> Sequence[RunRecord | Allocation]:
    return (*job.records, *job.replaced, *(() if job.allocation is None else (job.allocation,)))


def _said(job: Job, at: Instant, reason: str, message: str) -> dict[str, JsonValue]:
    return {
        "at": format_second(at),
        "kind": "TrainingJob",
        "namespace": job.namespace,
        "name": job.name,
        "reason": reason,
        "message": message,
        "warning": False,
        "count": 1,
        "dollars": None,
        "seconds": None,
    }


def _end_json(job: Job, run: RunRecord) -> JsonValue:
    message = f"run {run.number} on {option_name(run.option)}" + (f": {run.message}" if run.message else "")
    return _said(job, run.until, f"Run{run.outcome}", message) | {
        "warning": run.outcome.counts_as_restart or str(run.outcome) in ("Failed", "NotStarted"),
        "dollars": None if run.cost is None else run.cost.decimal(),
        "seconds": round(seconds_between(run.since, run.until)),
    }


def _is_recorded(event: RawObject, known: Mapping[str, set[str]]) -> bool:
    """Return whether the records of these jobs already contain the Event's decision."""
    told = known.get(event["involvedObject"].get("uid"))
    if told is None or event.get("action") not in ("Allocate", "RecordRun"):
        return False
    return event["action"] == "RecordRun" or event.get("message") in told


def _at(event: RawObject) -> Instant:
    series = event.get("series") or {}
    at = series.get("lastObservedTime") or event.get("eventTime") or event["metadata"]["creationTimestamp"]
    return parse_instant(at)


def _event_json(event: RawObject) -> JsonValue:
    about = event["involvedObject"]
    return {
        "at": format_second(_at(event)),
        "kind": about.get("kind", ""),
        "namespace": about.get("namespace", ""),
        "name": about.get("name", ""),
        "reason": event.get("reason", ""),
        "message": event.get("message", ""),
        "warning": event.get("type") == "Warning",
        "count": (event.get("series") or {}).get("count", 1),
        "dollars": None,
        "seconds": None,
    }


# History of budgets from Prometheus, which goes back further than a budget's status.


_SPAN_SECONDS: Final = 31 * 86_400
_STEP_SECONDS: Final = 3_600
"""One point an hour for 31 days gives 744 points per series."""
_FRESH_SECONDS: Final = 300.0
_TIMEOUT_SECONDS: Final = 5.0
_MOST_BYTES: Final = 16 * 1024 * 1024
_SERIES: Final = {
    "spent": catalogue.BUDGET_SPENT,
    "hourly": catalogue.BUDGET_RENTED_RATE,
    "paysPerHourSaved": catalogue.BUDGET_EXCHANGE_RATE,
}


class PrometheusHistory:
    """Series of each budget from the Prometheus at ``url``. Series are read again when they are five minutes old."""

    def __init__(self, url: str, session: aiohttp.ClientSession, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url.rstrip("/")
        self._session = session
        self._clock = clock
        self._latest: JsonValue = None
        self._asked = float("-inf")

    async def latest(self) -> JsonValue:
        """Return ``budgets`` and ``problem``, an error or None.

        ``budgets`` maps a budget's name to its series by name, each a list of ``[seconds since 1970, value]``.
        """
        if self._clock() - self._asked >= _FRESH_SECONDS:
            self._latest = await self._ask()
            self._asked = self._clock()
        return self._latest

    async def _ask(self) -> JsonValue:
        budgets: dict[str, dict[str, JsonValue]] = {}
        try:
            for name, spec in _SERIES.items():
                for budget, points in (await self._range(spec.name)).items():
                    budgets.setdefault(budget, {})[name] = points
        except (
            aiohttp.ClientError,
            TimeoutError,
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
        ) as error:
            reason = str(error) or type(error).__name__
            return {"budgets": {}, "problem": f"no history from Prometheus {self._url}: {reason}"}
        return {"budgets": budgets, "problem": None}

    async def _range(self, metric: str) -> Mapping[str, JsonValue]:
        """Return the last month's values of a metric by budget.

        Raises ValueError if the response is not a success of the Prometheus API.
        """
        end = ceil(time.time())
        query = {
            "query": f"max by (budget) ({metric})",
            "start": str(end - _SPAN_SECONDS),
            "end": str(end),
            "step": str(_STEP_SECONDS),
        }
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
        async with self._session.get(f"{self._url}/api/v1/query_range", params=query, timeout=timeout) as response:
            body = await response.content.read(_MOST_BYTES + 1)
            while len(body) <= _MOST_BYTES and (more := await response.content.read(_MOST_BYTES)):
                body += more
        if len(body) > _MOST_BYTES:
            raise ValueError(f"the answer has more than {_MOST_BYTES} bytes")
        try:
            answer: Any = json.loads(body)
        except (ValueError, RecursionError):
            raise ValueError(f"HTTP {response.status}, and the answer is no JSON") from None
        if not isinstance(answer, dict) or answer.get("status") != "success":
            said = answer.get("error") if isinstance(answer, dict) else None
            raise ValueError(f"HTTP {response.status}: {said or 'no success'}")
        return {
            str(found["metric"].get("budget", "")): [
                [int(at), float(value)] for at, value in found["values"] if isfinite(float(value))
            ]
            for found in answer["data"]["result"]
        }


_RECORD_FRESH_SECONDS: Final = 300.0
"""Seconds between two reads of a record of costs. A record may have thousands of files."""

Parts = Mapping[str, JsonValue]
"""The parts of the page by name. Each job's lane is a part ``lane:<uid>``. The part ``lanes`` has their order."""


@dataclass(frozen=True, slots=True)
class PageQuestion:
    """Selects the page's content: a ``budget`` or None for all, the ``record`` of costs or empty, keys to sum by."""

    budget: str | None = None
    record: str = ""
    by: tuple[str, ...] = ("namespace",)


@dataclass(frozen=True, slots=True)
class Sighting:
    """A read of the cluster. ``trouble`` says why no operator acts, ``warnings`` what else a user should know."""

    state: ClusterState
    now: Instant
    trouble: str = ""
    events: Sequence[RawObject] = ()
    warnings: Sequence[str] = field(default=())


class MonthCosts:
    """This month's costs as in ``charterer costs``. A record of costs is read again after five minutes."""

    def __init__(self, question: PageQuestion) -> None:
        budgets = () if question.budget is None else (question.budget,)
        self._asked = CostQuestion(None, question.record, budgets, question.by, share_waste=False, recorded_only=False)
        self._read: Instant | None = None
        self._known: tuple[JsonValue, str] = None, ""

    def at(self, snapshot: Snapshot, now: Instant) -> tuple[JsonValue, str]:
        """Return the document and an empty text, or None and a sentence that gives the reason."""
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
    """Compute the parts for an account that may read the whole cluster.

    Raises ClickException if the budget does not exist. ``month`` caches the costs of earlier reads.
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
    """Compute the parts for an account that may read only one namespace, from the status of its jobs."""
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
    """Return the budget's period, the present hourly cost of its nodes, and the days in its status."""
    balance, budget = budget.balance, budget.in_period_of(now)
    start, end = budget.period
    return {
        "name": budget.id,
        "timeZone": budget.calendar.time_zone,
        "period": budget.calendar.period.value,
        "start": format_instant(start),
        "end": format_instant(end),
        "since": format_instant(max(start, budget.created)),
        "aim": budget.aim.decimal(),
        "opening": opening_in(budget, start).decimal(),
        "losses": losses_json(losses_since(budget, start)),
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


# Distribution of the parts to pages. Each client gets the parts that changed since its last message, at its own pace.


_BATCH: Final = 256
"""Maximum number of parts in one message. The limit bounds the data that waits for a slow client."""


def encode(parts: Parts) -> Mapping[str, str]:
    """Encode each part as one line of JSON without control characters."""
    return {name: visible(json.dumps(part, ensure_ascii=False, separators=(",", ":"))) for name, part in parts.items()}


class Board:
    """The latest parts. There is no queue: a slow client misses versions that a newer one has replaced."""

    def __init__(self) -> None:
        self._parts: dict[str, tuple[int, str]] = {}
        self._version = 0
        self._changed = asyncio.Event()
        self._watched = asyncio.Event()
        self.clients = 0

    def show(self, encoded: Mapping[str, str], *, whole: bool = True) -> None:
        """Publish these parts. Unchanged parts are not sent again. ``whole`` removes all other parts."""
        before, version = self._parts, self._version + 1
        fresh = {
            name: known if (known := before.get(name)) is not None and known[1] == text else (version, text)
            for name, text in encoded.items()
        }
        self._parts = fresh if whole else before | fresh
        self._version = version
        self._changed.set()
        self._changed = asyncio.Event()

    @contextmanager
    def client(self) -> Iterator[None]:
        """Count a page as connected inside the ``with`` block."""
        self.clients += 1
        self._watched.set()
        try:
            yield
        finally:
            self.clients -= 1
            if not self.clients:
                self._watched.clear()

    async def watched(self) -> None:
        """Wait until a page is connected."""
        await self._watched.wait()

    async def messages(self, pulse_seconds: float) -> AsyncIterator[str]:
        """Yield messages for one client: JSON objects of parts by name.

        After ``pulse_seconds`` without a change, yield "".
        """
        seen = 0
        while True:
            changed, version = self._changed, self._version
            news = [(name, text) for name, (since, text) in self._parts.items() if since > seen]
            for first in range(0, len(news), _BATCH):
                yield "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in news[first : first + _BATCH]) + "}"
            seen = version
            try:
                async with asyncio.timeout(pulse_seconds):
                    await changed.wait()
            except TimeoutError:
                yield ""
