"""An object that its team already had, such as a Job, and that is carried out in place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from charterer.domain.money import Money
from charterer.domain.reports import Progress
from charterer.domain.time import Instant


class TargetRef(NamedTuple):
    """Which object a TrainingJob stands for, in its own namespace. ``uid``: not one of the same name made later.

    ``queued``: it waits in a queue of Kueue, which starts and stops it; ``sized``: its author gave its GPUs in an
    annotation, so that its width is Charterer's.
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
    """What becomes of an object whose job is given up. FAIL: its own controller ends it as failed, so that whatever
    waits for it goes on. GIVE_BACK: its author has it back, as it was written.
    """

    FAIL = "Fail"
    GIVE_BACK = "GiveBack"


class Asked(NamedTuple):
    """What the object's author asks for, in the words of a TrainingJob. ``profile``: empty where none is named.

    ``template``: digest of the pods' template, without what places them.
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
    """What the TrainingJob's own status said last: whether all pods of its run are ready, and since when that is so."""

    ready: bool
    since: Instant


@dataclass(frozen=True, slots=True)
class Target:
    """The object as far as Charterer looks at it.

    ``job``: uid of the TrainingJob whose run its template carries, empty before the first; ``run``: that run's number,
    0 before the first. ``pods``: its width; ``indexed``: whether its pods are numbered from 0. ``controllers``: names
    of the objects that control its pods; ``controller_prefix``: how the names of those begin that have names of their
    own and may be gone, empty where there are none. ``placeable``: its scheduling fields can be written now. ``begun``:
    it has pods that nobody placed, or had some. ``held``: the chart's policy suspended it, or a run of it was placed,
    so that its author cannot run it. ``started``: since when it is not suspended. ``complete`` and ``failed``: since
    when it has that end, by its own word. ``retries``: how many more pods may fail than its author allows, while it is
    resized in place. ``progress``: what it says itself of how far its run is. ``asked``: by its author; None where that
    cannot be read. ``problem``: why it cannot be adopted; empty if it can. ``warning``: what its author is not granted.
    ``incomplete``: what its controller still waits for, although all pods with GPUs may run; empty where for nothing.
    ``when_given_up``: as its author asks. ``ending``: it has no time left to run, so that its controller ends it now.

    Of what waits in a queue of Kueue: ``workload``: the name of the Workload by which Kueue starts and stops it,
    empty while there is none; ``run`` is then that which Kueue is told to run. ``has_quota``: Kueue has reserved its
    quota and waits for Charterer. ``reserved``: it has quota, whatever else it waits for. ``checks``: the names of
    the AdmissionChecks that its queue asks. ``replaces``: the name of the Workload before it, where the object grows
    while it runs; ``admitted``: it is started; ``evicted``: Kueue has stopped it at least once.
    ``grows_to``: how many pods it waits to grow to; 0: to none. ``message``: what Charterer last said of it there.
    ``eviction``: why Kueue stopped it last, in its words; ``withheld``: it keeps it stopped for a reason that is none
    of Charterer's. ``left``: its template still has what placed a run before. ``template``: digest of its pods'
    template.
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
        """Whether it waits in a queue of Kueue."""
        return self.ref.queued

    def controls(self, controller: str) -> bool:
        """Whether the object of that name controls pods of this one."""
        prefix = self.controller_prefix
        return controller in self.controllers or (bool(prefix) and controller.startswith(prefix))

    @property
    def ended(self) -> Instant | None:
        """Since when the object has an end, of either kind; None while it has none."""
        return self.failed if self.complete is None else self.complete
