"""What was decided and what happened, newest first: runs as jobs record them, and the operator's Events on the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from charterer.api.names import GROUP
from charterer.cli.shared.output import JsonValue
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import ApiError
from charterer.cluster.paths import Resource
from charterer.domain.job import Allocation, Job, RunRecord
from charterer.domain.reasons.phrases import name as option_name
from charterer.domain.time import Instant, format_second, parse_instant, seconds_between

SHOWN: Final = 500
"""Decisions that the page gets: what a person scrolls through. Events are kept for an hour, as a rule."""
_EVENTS: Final = Resource("", "v1", "events", namespaced=True)
"""The form of Events that ClusterRole view lets people read."""
_OPERATOR: Final = f"reportingComponent={GROUP}/operator"


async def read_events(client: Client, namespace: str | None) -> tuple[Sequence[RawObject], str]:
    """The operator's Events, of one namespace or all; and a sentence on why they are not there, empty if they are."""
    try:
        return (await client.list(_EVENTS.all(namespace), fields=_OPERATOR)).items, ""
    except ApiError as error:
        return (), f"decisions on nodes and pools are not shown, because Events cannot be read: {error.message}"


def decisions_json(events: Iterable[RawObject], jobs: Iterable[Job], *, only_jobs: bool) -> JsonValue:
    """At most ``SHOWN`` of them. Dollars and seconds of an ended run are what it cost and how long it lasted.

    ``only_jobs``: leave out what is about other objects than these jobs.
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
    """Whether the record of one of these jobs tells the same."""
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
