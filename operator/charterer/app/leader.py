"""The leader's parts: observing, planning, acting, publishing, learning, and the progress endpoint.

Each part is made after the parts that it uses. All parts share two values: ``awake`` is set when the loop should turn.
``in_flight`` holds the keys of the mutations that the loop has begun, which writers of status avoid.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final, TypeVar

from charterer.api import decode
from charterer.app.certificate import keep_renewed
from charterer.app.settings import Settings
from charterer.cluster.client import TIMEOUT, Client, RawObject
from charterer.cluster.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    OutcomeUnknown,
    TooManyRequests,
    Unauthorized,
)
from charterer.cluster.events import Recorder
from charterer.cluster.paths import NAMESPACES, TOKEN_REVIEWS
from charterer.cluster.resync import Resync
from charterer.cluster.store import Store
from charterer.controller.execute import (
    CloudWriter,
    ClusterExecutor,
    CostWriter,
    DecidedObjects,
    ExecutionContext,
    ObjectWriter,
)
from charterer.controller.execute.kueue_checks import KueueChecks
from charterer.controller.learning.bottleneck_watch import BottleneckWatch
from charterer.controller.learning.profile_writer import ProfileWriter
from charterer.controller.learning.report_collector import ReportCollector
from charterer.controller.loop import Loop
from charterer.controller.outcome import Executor
from charterer.controller.preflights import Preflights
from charterer.controller.progress_writer import ProgressWriter, SnapshotJobDirectory
from charterer.controller.run_warnings import RunWarnings
from charterer.controller.snapshot.source import SnapshotSource, Volumes
from charterer.controller.status.events import Events, TransitionEvents
from charterer.controller.status.publisher import StatusPublisher
from charterer.controller.status.view_writer import ViewWriter
from charterer.controller.surveys import (
    Reading,
    Renewals,
    Surveys,
    TrustedClock,
    machines_on_record,
    pools_in,
    pools_in_motion,
    pools_to_renew,
)
from charterer.controller.templates import Templates
from charterer.controller.unpaid_pods import UnpaidPods
from charterer.domain.cost_row import NO_RECORDING
from charterer.domain.ids import StepKey
from charterer.domain.snapshot import Snapshot, Stop
from charterer.domain.time import Instant, instant
from charterer.metrics.instruments import Metrics
from charterer.providers.accounts import Accounts, Adapters
from charterer.providers.guarded import Guards
from charterer.providers.objects import CallFailure, Json, Listed, ObjectsError
from charterer.server.http import PROGRESS_CONNECTIONS, HeldAnswers, progress_app, serve
from charterer.server.progress import ProgressBoard
from charterer.server.tls import TlsMaterial
from charterer.server.tokens import Authenticator, PostReview
from charterer.spans import Span
from charterer.workloads import INDEXED_JOB, RunEnvironment

# Access to objects of the cluster for cloud adapters, whose layer does not import the API server's client.


_FAILURES: Final[Mapping[type[ApiError], CallFailure]] = {
    OutcomeUnknown: CallFailure.UNKNOWN,
    TooManyRequests: CallFailure.THROTTLED,
    Unauthorized: CallFailure.FORBIDDEN,
    Forbidden: CallFailure.FORBIDDEN,
    NotFound: CallFailure.ABSENT,
    BadRequest: CallFailure.REFUSED,
}

_LOOSENESS: Final = round((TIMEOUT + 1) * 1e6)
"""Microseconds by which a Date header may be late: the header has whole seconds, and the answer travels for a while."""


class ClusterObjects:
    """The calls of ``providers.objects.Objects``, made by the operator's client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ahead: int | None = None
        """Lower bound in microseconds of the API server's clock minus the event loop's clock."""

    async def get(self, path: str) -> Json | None:
        """One object, or None if there is no object of that name or no such kind."""
        with _classified("get", path):
            try:
                return await self._client.get(path)
            except NotFound:
                return None

    async def list(self, path: str, *, labels: str = "", fields: str = "") -> Listed:
        """A whole list, with the time of its request. The list was complete at that time."""
        began = asyncio.get_running_loop().time()
        with _classified("list", path):
            listing = await self._client.list(path, labels=labels, fields=fields)
        return Listed(listing.items, self._at(began))

    async def create(self, path: str, body: Json, *, dry_run: bool = False) -> bool:
        """Create an object in the collection at ``path``. Returns False if one of that name exists."""
        with _classified("create", path):
            try:
                await self._client.post(path, body, dry_run=dry_run)
            except AlreadyExists:
                return False
            return True

    async def keep_by(self, path: str, resource_version: str, finalizers: Sequence[str]) -> str | None:
        """Set an object's finalizers. Returns its new resourceVersion, or None if it has changed since or is gone."""
        body = {"metadata": {"resourceVersion": resource_version, "finalizers": list(finalizers)}}
        with _classified("patch", path):
            try:
                changed = await self._client.merge_patch(path, body)
            except (Conflict, NotFound):
                return None
            return str(changed["metadata"]["resourceVersion"])

    async def delete(self, path: str, *, uid: str, resource_version: str = "") -> bool:
        """Delete the object if it has this uid and, if given, this resourceVersion.

        Returns False if the object differs in either, or is gone.
        """
        with _classified("delete", path):
            try:
                await self._client.delete(path, uid=uid, resource_version=resource_version or None)
            except (Conflict, NotFound):
                return False
            return True

    def _at(self, clock: float) -> Instant:
        """The API server's time at which the event loop's clock shows ``clock``.

        The result goes back only if the API server's clock does. The Date header has whole seconds. So each answer
        gives a lower bound of the difference of the two clocks, and the largest bound is used.
        """
        if self._client.date is None:
            return Instant(time.time_ns() // 1_000)
        date, received = self._client.date
        least = instant(parsedate_to_datetime(date)) - round(received * 1e6)
        known = least if self._ahead is None else self._ahead
        self._ahead = min(max(known, least), least + _LOOSENESS)
        return Instant(round(clock * 1e6) + self._ahead)


@contextmanager
def _classified(call: str, path: str) -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        failure = next((found for kind, found in _FAILURES.items() if isinstance(error, kind)), CallFailure.NOT_DONE)
        retry_after = error.retry_after if isinstance(error, TooManyRequests) else 1.0
        raise ObjectsError(failure, f"{call} {path}", error.message, retry_after) from error


# Repeating a request whose answer the process needs before it can begin.


T = TypeVar("T")

_log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0


async def until_answered(what: str, ask: Callable[[], Awaitable[T]]) -> T:
    """Call ``ask`` until it raises no ApiError, and return its answer."""
    while True:
        try:
            return await ask()
        except ApiError as error:
            seconds = max(_RETRY_SECONDS, error.retry_after)
            _log.warning("%s: not yet, again in %g s: %s", what, seconds, error)
            await asyncio.sleep(seconds)


_COLLECTION_THRESHOLD = 100_000
"""Number of new objects after which Python's cyclic garbage collector runs. Little garbage is in cycles.

A plan of ten thousand jobs makes half as many objects as this number. With Python's default of 700, every third plan
would walk through all stored objects and take twice as long.
"""


def now() -> Instant:
    """The operator's wall clock."""
    return Instant(time.time_ns() // 1_000)


class Leader:
    """The leader's parts, wired. Call ``start`` and then ``run``, in the running event loop only.

    ``fence`` returns the seconds for which this process leads. ``wrap`` lets a test wrap the executor. ``adapters``
    makes the clouds' adapters, and ``span`` the spans of traces.
    """

    def __init__(
        self,
        settings: Settings,
        client: Client,
        store: Store,
        metrics: Metrics,
        material: TlsMaterial,
        fence: Callable[[], float],
        wrap: Callable[[Executor], Executor],
        adapters: Adapters,
        span: Span,
    ) -> None:
        self._settings = settings
        self._client = client
        self._store = store
        self._material = material
        self._awake = asyncio.Event()
        in_flight: set[StepKey] = set()
        environment = RunEnvironment(settings.url_for_pods, material.ca_pem)
        self.resync = Resync(client, store, interval=settings.resync_seconds)
        self._recorder = Recorder(client, instance=settings.pod_name)
        guards = Guards(
            record=metrics.cloud_called,
            fence=fence,
            stopped=self._stopped,
            dry_run=settings.dry_run,
            limits=settings.limits,
            span=span,
        )
        adapter = partial(adapters, objects=ClusterObjects(client))
        self._accounts = Accounts(os.environ, guards, adapter)
        self._board = ProgressBoard(regrouped=self._awake.set)

        clock = TrustedClock(now, asyncio.get_running_loop().time, self._clocks)
        self._now = clock.now

        # Observing
        moving = partial(pools_in_motion, store)
        known = partial(machines_on_record, store)
        pools = partial(pools_in, store)
        self._surveys = Surveys(self._accounts, pools, moving, known, self._awake.set, settings.surveys)
        self._renewals = Renewals(self._accounts, partial(pools_to_renew, store), settings.surveys.quiet_seconds)
        templates = Templates(client, INDEXED_JOB, environment, self._awake.set)
        self._warnings = RunWarnings(client, self._awake.set)
        watch = BottleneckWatch()
        costs = CostWriter(NO_RECORDING if settings.dry_run else settings.cost_recording, self._now)
        self._source = source = SnapshotSource(
            store,
            self._surveys,
            templates,
            Volumes(client, self._awake.set),
            self._board,
            self._warnings,
            lambda: watch.latest,
            lambda: costs.recording,
            self._now,
            settings.namespace,
            settings.limits,
            settings.not_adopted,
        )

        self._directory = SnapshotJobDirectory(source.last_or_none, material.run_secret)
        self._held = HeldAnswers(self._directory.generation)
        self._unpaid = UnpaidPods(client, store, self._recorder, self._now, settings.not_adopted)
        self._preflights = Preflights(self._accounts, partial(pools_in, store), self._awake.set, source.last_or_none)

        # Learning
        self._collector = ReportCollector(source.last_or_none, watch=watch)
        self._profiles = ProfileWriter(self._collector, client, store, self._recorder, settings.learning)

        # Acting and publishing
        decided, objects = DecidedObjects(store, source.last), ObjectWriter(client, store)
        context = ExecutionContext(
            decided=decided,
            objects=objects,
            clouds=CloudWriter(self._accounts, self._surveys),
            costs=costs,
            client=client,
            workload=INDEXED_JOB,
            environment=environment,
            now=self._now,
            unwritten=templates.unwritten,
        )
        self._progress = ProgressWriter(self._board, context, in_flight)
        self._checks = KueueChecks(client, store, source.last_or_none, self._now)
        shown, said = TransitionEvents(self._recorder).shown, self._checks.told

        def told(kind: str, before: Mapping[str, Any], written: RawObject) -> None:
            shown(kind, before, written)
            said(kind, written)

        self._views = ViewWriter(client, store, in_flight, told)
        publisher = StatusPublisher(
            store,
            metrics,
            Events(self._recorder),
            self._views,
            self._surveys.errors,
            self._preflights.latest,
            source.last,
        )
        executor = wrap(ClusterExecutor(context))
        self.loop = Loop(self._observe, self._now, executor, publisher, self._awake, in_flight, settings.timing, span)

    async def start(self, stack: AsyncExitStack) -> None:
        """Read the state that the cluster and the profiles hold. Everything that must be closed is put onto the stack.

        A former leader can no longer write, so what is read is newer than its last write.
        """
        stack.push_async_callback(self._accounts.close)
        await until_answered("the list of the cluster", self.resync.once)
        # the listed objects live long; if each collection walked through them, plans would take a third longer
        gc.freeze()
        gc.set_threshold(_COLLECTION_THRESHOLD)
        stack.push_async_callback(self._recorder.flush)
        await until_answered("the list of SpeedupProfiles", self._profiles.restore)
        self._store.bind(self._store_changed)

    async def run(self, stack: AsyncExitStack, serving: Callable[[], None] | None) -> None:
        """Serve progress, then run all parts until cancelled. ``serving`` is called once pods can be served.

        If ``serving`` is None, another process serves the pods, and this one does not.
        """
        context = None if serving is None else await self._serve_progress(stack)
        if serving is not None:
            serving()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.loop.run(), name="loop")
            tasks.create_task(self._surveys.run(), name="surveys")
            tasks.create_task(self._preflights.run(), name="preflights")
            tasks.create_task(self._renewals.run(), name="renewals")
            tasks.create_task(self.resync.run(), name="resync")
            tasks.create_task(self._warnings.run(self._source.last_or_none), name="warnings")
            tasks.create_task(self._unpaid.run(), name="unpaid pods")
            tasks.create_task(self._checks.run(), name="kueue")
            tasks.create_task(self._recorder.run(), name="events")
            tasks.create_task(self._views.run(), name="views")
            tasks.create_task(self._progress.run(), name="progress")
            tasks.create_task(self._profiles.run(), name="learning")
            if context is not None:
                renewal = keep_renewed(self._client, self._settings, context, self._material.ca_pem)
                tasks.create_task(renewal, name="certificate")
            self._awake.set()

    async def _serve_progress(self, stack: AsyncExitStack) -> ssl.SSLContext:
        """Serve the pods' reports. Returns the TLS context of the server."""
        context = self._material.server_context()
        authenticator = Authenticator(_token_review(self._client), self._directory)
        progress = await serve(
            progress_app(
                authenticator,
                self._directory,
                self._board,
                self._now,
                self._collector,
                self._held,
                again_seconds=self._settings.report_seconds,
            ),
            self._settings.host,
            self._settings.progress_port,
            context,
            limits=PROGRESS_CONNECTIONS,
        )
        stack.push_async_callback(progress.close)
        _log.info("progress on port %d", progress.port)
        return context

    def _observe(self) -> Snapshot:
        """Make a snapshot, and answer pods that wait for a change of their group."""
        snapshot = self._source.observe()
        self._held.look()
        return snapshot

    async def _stopped(self) -> Stop | None:
        """The stop that an annotation of the operator's own Namespace requests now, or None if there is no such
        annotation.

        Raises ApiError.
        """
        try:
            raw = await self._client.get(NAMESPACES.one(self._settings.namespace))
        except NotFound:
            return None
        return decode.namespace(raw).stop

    def _clocks(self) -> Iterable[Reading]:
        """Readings of the API server's clock and the clouds' clocks."""
        if self._client.date is not None:
            date, seconds = self._client.date
            yield Reading(instant(parsedate_to_datetime(date)), seconds)
        yield from self._surveys.clocks.values()

    def _store_changed(self) -> None:
        self._awake.set()
        self._surveys.look_again()


def _token_review(client: Client) -> PostReview:
    async def post(body: Mapping[str, object]) -> Mapping[str, object]:
        return await client.post(TOKEN_REVIEWS.all(), body)

    return post
