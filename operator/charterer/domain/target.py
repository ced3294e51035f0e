"""Adopted objects: objects such as Jobs that a team already had and that Charterer runs in place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from charterer.domain.money import Money
from charterer.domain.reports import Progress
from charterer.domain.time import Instant


class TargetRef(NamedTuple):
    """The object that a TrainingJob stands for, in its namespace. ``uid`` excludes a later object of that name.

    ``queued``: the object is in a queue of Kueue, which starts and stops it. ``sized``: its author declared its GPUs in
    an annotation, so that Charterer chooses its width.
    """

    api_version: str
    kind: str
    name: str
    uid: str
    queued: bool = False
    sized: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class WhenGivenUp(StrEnum):
    """What happens to an object whose job is given up. FAIL: its own controller ends it as failed, so that dependents
    go on. GIVE_BACK: its author gets it back as it was written."""

    FAIL = "Fail"
    GIVE_BACK = "GiveBack"


class Asked(NamedTuple):
    """The request of the object's author, in terms of a TrainingJob. ``profile``: empty if none is named.

    ``template``: digest of the pods' template, without the fields that place the pods.
    """

    least: int
    preferred: int
    most: int
    resize: str
    spot: str
    max_cost: Money | None
    complete_by: Instant | None
    profile: str
    suspend: bool
    template: str


class ToldReady(NamedTuple):
    """The readiness in the TrainingJob's status: whether all pods of its run are ready, and since when that holds."""

    ready: bool
    since: Instant


@dataclass(frozen=True, slots=True)
class Target:
    """The properties of an adopted object that Charterer uses.

    ``job``, ``run``: uid of the TrainingJob and number of the run in its template; empty and 0 before the first run.
    ``pods``: its width in pods. ``indexed``: whether its pods are numbered from 0. ``controllers``: names of the
    objects that control its pods. ``controller_prefix``: name prefix of further such objects, whose names vary and
    which may be gone; empty if there are none. ``placeable``: its scheduling fields can be written now. ``begun``: the
    object has or had pods that Charterer did not place. ``held``: the chart's policy suspended the object, or a run of
    the object was placed, so that its author cannot run it. ``started``: since when the object is not suspended.
    ``complete``, ``failed``: when the object completed or failed, by its own status. ``retries``: how many more pods
    may fail than its author allows, while it is resized in place. ``progress``: the progress of its run in its own
    status. ``asked``: its author's request; None if unreadable. ``problem``: why the object cannot be adopted; empty if
    it can. ``warning``: what its author asks for and does not get. ``incomplete``: what its controller still waits for
    although all pods with GPUs may run; empty if it waits for nothing. ``when_given_up``: its author's choice.
    ``ending``: its time to run is over, so that its controller ends it now.

    If the object is in a queue of Kueue, ``run`` is the run that Kueue may start, and further fields are used.
    ``workload``: the name of the Workload by which Kueue starts and stops it; empty if there is none. ``has_quota``:
    Kueue has reserved its quota and waits for Charterer. ``reserved``: the object has quota, whatever else it waits
    for. ``checks``: names of the AdmissionChecks of its queue. ``replaces``: the name of the previous Workload, if the
    object grows while it runs. ``admitted``: Kueue started the object. ``evicted``: Kueue stopped the object at least
    once. ``grows_to``: the number of pods that it waits to grow to; 0 for none. ``message``: Charterer's last message
    in its AdmissionCheck. ``eviction``: why Kueue last stopped the object, in Kueue's words. ``withheld``: Kueue keeps
    the object stopped for a reason other than Charterer's. ``left``: its template still has the scheduling fields of an
    earlier run. ``template``: digest of its pods' template.
    """

    ref: TargetRef
    namespace: str
    resource_version: str
    created: Instant
    suspended: bool
    deleting: bool = False
    job: str = ""
    run: int = 0
    pods: int = 1
    indexed: bool = False
    controllers: frozenset[str] = frozenset()
    controller_prefix: str = ""
    placeable: bool = False
    begun: bool = False
    held: bool = False
    started: Instant | None = None
    complete: Instant | None = None
    failed: Instant | None = None
    failed_message: str = ""
    failed_by_disruption: bool = False
    failed_pods: int = 0
    retries: int = 0
    progress: Progress | None = None
    asked: Asked | None = None
    problem: str = ""
    warning: str = ""
    incomplete: str = ""
    when_given_up: WhenGivenUp = WhenGivenUp.FAIL
    ending: bool = False
    workload: str = ""
    has_quota: bool = True
    reserved: bool = False
    checks: tuple[str, ...] = ()
    replaces: str = ""
    admitted: bool = False
    grows_to: int = 0
    message: str = ""
    evicted: bool = False
    eviction: str = ""
    withheld: bool = False
    left: bool = False
    template: str = ""

    @property
    def queued(self) -> bool:
        return self.ref.queued

    def controls(self, controller: str) -> bool:
        """Whether the object named ``controller`` controls pods of this object."""
        prefix = self.controller_prefix
        return controller in self.controllers or (bool(prefix) and controller.startswith(prefix))

    @property
    def ended(self) -> Instant | None:
        """When the object completed or failed; None before that."""
        return self.failed if self.complete is None else self.complete
