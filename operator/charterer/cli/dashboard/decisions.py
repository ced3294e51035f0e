"""What was decided and what happened, newest first: the operator's Events, and the ends of runs as jobs record them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from charterer.api.names import GROUP
from charterer.cli.dashboard.lanes import Reasons
from charterer.cli.shared.output import JsonValue
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import ApiError
from charterer.cluster.paths import Resource
from charterer.domain.job import Job
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
        return (), f"decisions of jobs that run are not shown, because Events cannot be read: {error.message}"


def decisions_json(events: Iterable[RawObject], jobs: Iterable[Job], *, only_jobs: bool) -> JsonValue:
    """At most ``SHOWN`` of them. Dollars and seconds of an ended run are what it cost and how long it lasted.

    ``only_jobs``: leave out what is about other objects than these jobs.
    """
    jobs = tuple(jobs)
    known = {str(job.id) for job in jobs}
    found = [
        (_at(event), _event_json(event))
        for event in events
        if not _is_recorded(event, known) and (not only_jobs or event["involvedObject"].get("uid") in known)
    ]
    for job in jobs:
        for run in job.records:
            said: JsonValue = {
                "at": format_second(run.until),
                "kind": "TrainingJob",
                "namespace": job.namespace,
                "name": job.name,
                "reason": f"Run{run.outcome}",
                "message": f"run {run.number} on {option_name(run.option)}"
                + (f": {run.message}" if run.message else ""),
                "warning": run.outcome.counts_as_restart or str(run.outcome) in ("Failed", "NotStarted"),
                "count": 1,
                "dollars": None if run.cost is None else run.cost.decimal(),
                "seconds": round(seconds_between(run.since, run.until)),
            }
            found.append((run.until, said))
    found.sort(key=lambda each: -each[0])
    return [said for _, said in found[:SHOWN]]


def reasons_by_job(events: Iterable[RawObject]) -> Mapping[str, Reasons]:
    """What the Events say of why jobs were given what they were given, by the job's uid."""
    found: dict[str, list[tuple[Instant, str]]] = {}
    for event in events:
        if event.get("action") == "Allocate":
            found.setdefault(event["involvedObject"].get("uid", ""), []).append((_at(event), event.get("message", "")))
    return {uid: sorted(told) for uid, told in found.items()}


def _is_recorded(event: RawObject, known: set[str]) -> bool:
    """Whether a job's record tells the same, with its cost."""
    return event.get("action") == "RecordRun" and event["involvedObject"].get("uid") in known


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
