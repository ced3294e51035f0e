"""The name of a job as people give it: of a TrainingJob, or of the object that it was made for."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import click

from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import Forbidden, NotFound
from charterer.cluster.paths import EVENTS, TRAINING_JOBS
from charterer.domain.jobs.target import TargetRef
from charterer.sentences import names, similar_names
from charterer.workloads import ADOPTED

_OWN = ("tj", "trainingjob", "trainingjobs", "trainingjob.charterer.dev", "trainingjobs.charterer.dev")


class JobName(NamedTuple):
    """``kind``: of the object that the TrainingJob stands for, as Job; empty where the TrainingJob itself is named."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind or 'TrainingJob'} {self.name!r}"

    def means(self, name: str, target: TargetRef | None) -> bool:
        """Whether a TrainingJob of this name is meant, or one that stands for this target."""
        if not self.kind:
            return name == self.name
        return target is not None and self == (target.kind, target.name)


def job_name(given: str) -> JobName:
    """What ``NAME``, ``tj/NAME`` or ``job/NAME`` means; click.BadParameter for a kind that is none of jobs."""
    word, slash, name = given.rpartition("/")
    if not name:
        raise click.BadParameter(f"{given!r} names no job; write tj/NAME")
    if not slash or word.lower() in _OWN:
        return JobName("", name)
    for kind in ADOPTED:
        resource = kind.kind.resource
        if word.lower() in (kind.name.lower(), resource.plural, f"{resource.plural}.{resource.group}"):
            return JobName(kind.name, name)
    known = names([kind.name.lower() for kind in ADOPTED])
    raise click.BadParameter(f"{given!r}: {word!r} is no kind of job; write tj/NAME, or KIND/NAME with {known}")


async def record_of(client: Client, name: JobName, namespace: str) -> RawObject:
    """The TrainingJob that is meant. ClickException where there is none, with similar names. Raises ApiError."""
    if not name.kind:
        try:
            return await client.get(TRAINING_JOBS.one(name.name, namespace))
        except NotFound:
            pass
    there = (await client.list(TRAINING_JOBS.all(namespace))).items
    for raw in there:
        target = raw["spec"].get("targetRef")
        if target is not None and name.means(raw["metadata"]["name"], TargetRef(*map(target.get, _REF))):
            return raw
    missing = none_of(name, namespace, [raw["metadata"]["name"] for raw in there])
    raise click.ClickException(missing + await why_not_adopted(client, name, namespace))


_REF = ("apiVersion", "kind", "name", "uid")


async def why_not_adopted(client: Client, name: JobName, namespace: str) -> str:
    """The end of a sentence: what the last Event says of why the object has no TrainingJob; empty without one."""
    said: Sequence[RawObject] = ()
    if name.kind:
        with suppress(Forbidden):
            of_it = f"reason=NotAdopted,regarding.kind={name.kind},regarding.name={name.name}"
            said = (await client.list(EVENTS.all(namespace), fields=of_it)).items
    last = max(said, key=lambda each: str(each["metadata"].get("creationTimestamp")), default=None)
    return "" if last is None else f". The operator said: {last.get('note')}"


def none_of(name: JobName, namespace: str, there: list[str]) -> str:
    """That no TrainingJob is meant, and what to do."""
    if name.kind:
        return (
            f"no TrainingJob was made for {name} in namespace {namespace}: see its Events (kubectl -n {namespace} "
            f"describe {name.kind.lower()} {name.name}), and charterer doctor -n {namespace}"
        )
    return f"no {name} in namespace {namespace}: {similar_names(name.name, there)}"
