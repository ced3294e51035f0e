"""The process: what runs in which thread, what happens on gaining and losing the lead, and the orderly end.

Threads: the main event loop (plan, mutations, servers), kopf's watch with an event loop of its own, the Lease's two.
A standby keeps its store warm and serves health; only the leader plans, serves progress and writes.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import logging
import os
import signal
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from charterer import __version__
from charterer.cluster import credentials, kinds
from charterer.cluster.client import Client
from charterer.cluster.credentials import Access
from charterer.cluster.errors import AlreadyExists, ApiError, Conflict, NotFound
from charterer.cluster.events import Recorder
from charterer.cluster.heartbeat import Heartbeat
from charterer.cluster.lease import Lease, LeaseTimes
from charterer.cluster.paths import PODS, SECRETS, TOKEN_REVIEWS
from charterer.cluster.resync import Resync
from charterer.cluster.store import Store
from charterer.cluster.watch import Watch
from charterer.controller.clouds import InstrumentedProviders
from charterer.controller.execute import (
    CloudWriter,
    ClusterExecutor,
    DecidedObjects,
    ExecutionContext,
    ObjectWriter,
)
from charterer.controller.job_directory import StoreJobDirectory
from charterer.controller.learning.profile_writer import ProfileWriter, WriteIntervals
from charterer.controller.learning.report_collector import ReportCollector
from charterer.controller.loop import Loop, LoopTiming
from charterer.controller.outcome import Executor
from charterer.controller.progress_writer import ProgressWriter
from charterer.controller.snapshot.source import SnapshotSource
from charterer.controller.status.events import Events
from charterer.controller.status.publisher import StatusPublisher
from charterer.controller.status.view_writer import ViewWriter
from charterer.controller.surveys import SurveyPace, Surveys
from charterer.controller.templates import Templates
from charterer.domain.time import Instant
from charterer.metrics import Metrics
from charterer.providers.registry import Registry
from charterer.server.http import health_app, progress_app, serve
from charterer.server.progress import ProgressBoard
from charterer.server.tls import StoredSecret, TlsMaterial, ensure_tls
from charterer.server.tokens import Authenticator, PostReview
from charterer.workloads import INDEXED_JOB, RunEnvironment

_log = logging.getLogger(__name__)

_SECRET = "charterer-progress-tls"
_LEADER_LABEL = "charterer.dev/leader"
_WATCH_LAG_SECONDS = 60.0
_LOOP_STALL_SECONDS = 60.0
_RENEWAL_CHECK_SECONDS = 86_400.0
_COLLECT_AFTER = 100_000
"""Objects made before garbage in cycles, of which there is little, is looked for. A plan of ten thousand jobs makes
half as many; with Python's 700 every third plan went through all that is kept for the next, and took twice as long."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to run. Ports may be 0; the ports really used are logged. ``kubeconfig`` None: the service account."""

    pod_name: str
    namespace: str
    kubeconfig: Path | None = None
    context: str | None = None
    host: str = "0.0.0.0"
    http_port: int = 8080
    progress_port: int = 8443
    progress_url: str = ""
    resync_seconds: float = 300.0
    surveys: SurveyPace = field(default_factory=SurveyPace)
    pace: LoopTiming = field(default_factory=LoopTiming)
    lease: LeaseTimes = field(default_factory=LeaseTimes)
    learning: WriteIntervals = field(default_factory=WriteIntervals)

    @property
    def url_for_pods(self) -> str:
        """Where pods report progress."""
        return self.progress_url or f"https://charterer-progress.{self.namespace}.svc"


def now() -> Instant:
    """The operator's clock."""
    return Instant(time.time_ns() // 1_000)


async def run(settings: Settings, wrap: Callable[[Executor], Executor] = lambda executor: executor) -> None:
    """Run until SIGTERM or SIGINT, then give the Lease up. ``wrap`` lets a test stand around the executor.

    Raises NoAccess when no cluster can be found. When the lead is lost the process ends at once with status 1.
    """
    access = credentials.load(settings.kubeconfig, settings.context)
    operator = _Operator(settings, access, wrap)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for received in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(received, stop.set)
    async with AsyncExitStack() as stack:
        await operator.stand_by(stack)
        leading = asyncio.create_task(operator.lead(stack), name="lead")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        await asyncio.wait((leading, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if leading.done():
            leading.result()
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        _log.info("stopping")


class _Operator:
    """The parts of one process, wired."""

    def __init__(self, settings: Settings, access: Access, wrap: Callable[[Executor], Executor]) -> None:
        self._settings = settings
        self._access = access
        self._wrap = wrap
        self._metrics = Metrics(__version__)
        self._store = Store((*kinds.ALL, INDEXED_JOB.kind))
        self._heartbeat = Heartbeat()
        self._watch = Watch(
            access,
            self._store,
            self._heartbeat,
            lease="charterer",
            namespace=settings.namespace,
            on_relist=lambda: self._main.call_soon_threadsafe(self._repair),
            on_end=lambda: _die("the watch has ended"),
        )
        self._resync: Resync | None = None
        self._gained = asyncio.Event()
        self._main = asyncio.get_running_loop()
        self._lease = Lease(
            access,
            "charterer",
            settings.namespace,
            settings.pod_name,
            on_gained=self._hand_over,
            on_lost=lambda why: _die(f"lost the lead ({why})"),
            heartbeat=self._heartbeat,
            times=settings.lease,
        )
        self._loop: Loop | None = None
        self._metrics.last_event_age(self._event_age)

    async def stand_by(self, stack: AsyncExitStack) -> None:
        """Serve health, keep the store warm, stand for the lead."""
        health = await serve(
            health_app(
                self._metrics.exposition,
                live={"watch": self._watch_delivers, "loop": self._loop_turns},
                ready={"watch": self._watch_started},
            ),
            self._settings.host,
            self._settings.http_port,
        )
        stack.push_async_callback(health.close)
        _log.info("health and metrics on port %d", health.port)
        self._watch.start()
        stack.callback(self._watch.stop)
        self._lease.start()
        stack.callback(self._lease.release)

    async def lead(self, stack: AsyncExitStack) -> None:
        """Wait for the lead, then plan and act until cancelled."""
        self._metrics.leading(False)
        client = await stack.enter_async_context(
            Client(self._access, fence=self._lease.remaining, wrote=self._metrics.api_written)
        )
        async with Client(self._access) as before_leading:
            await self._label_self(before_leading, "false")
        _log.info("waiting for the lead of Lease %s/charterer as %s", self._settings.namespace, self._settings.pod_name)
        await self._gained.wait()
        self._metrics.leading(True)
        _log.info("leading")
        material = await self._certificate(client)
        board = ProgressBoard()
        sight = SnapshotSource(self._store, board, now)
        clouds = InstrumentedProviders(Registry(os.environ), self._metrics)
        stack.push_async_callback(clouds.close)
        environment = RunEnvironment(self._settings.url_for_pods, material.ca_pem)
        # What is read now is newer than whatever a former leader wrote last: it cannot write any more.
        self._resync = resync = Resync(client, self._store, interval=self._settings.resync_seconds)
        await self._again_and_again(resync.once)
        gc.freeze()  # what was just listed lives long: looking through it again and again would cost plans a third
        gc.set_threshold(_COLLECT_AFTER)
        recorder = Recorder(client, instance=self._settings.pod_name)
        stack.push_async_callback(recorder.flush)
        ear = ReportCollector(sight.last_or_none)
        memory = ProfileWriter(ear, client, self._store, recorder, self._settings.learning)
        await self._again_and_again(memory.recall)
        templates = Templates(client, INDEXED_JOB, environment, self._wake)
        surveys = Surveys(clouds, sight.pools, sight.moving, self._wake, time.monotonic, self._settings.surveys)
        sight.use(surveys, templates)
        context = ExecutionContext(
            decided=DecidedObjects(self._store, sight.last),
            objects=ObjectWriter(client, self._store),
            clouds=CloudWriter(clouds, surveys),
            client=client,
            workload=INDEXED_JOB,
            environment=environment,
            now=now,
        )
        writer = ViewWriter(client, self._store, lambda key: self._loop is not None and self._loop.busy(key))
        showing = StatusPublisher(self._store, self._metrics, Events(recorder), writer, surveys.errors, sight.last)
        self._loop = loop = Loop(sight.look, now, self._wrap(ClusterExecutor(context)), showing, self._settings.pace)

        def changed() -> None:
            loop.wake()
            surveys.look_again()

        self._store.bind(changed)
        directory = StoreJobDirectory(sight.last_or_none)
        tls = material.server_context()
        progress = await serve(
            progress_app(Authenticator(_review(client), directory), directory, board, now, ear),
            self._settings.host,
            self._settings.progress_port,
            tls,
        )
        stack.push_async_callback(progress.close)
        _log.info("progress on port %d", progress.port)
        await self._label_self(client, "true")
        flush = ProgressWriter(board, context, loop.busy)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(loop.run(), name="loop")
            tasks.create_task(surveys.run(), name="surveys")
            tasks.create_task(resync.run(), name="resync")
            tasks.create_task(recorder.run(), name="events")
            tasks.create_task(writer.run(), name="views")
            tasks.create_task(flush.run(), name="progress")
            tasks.create_task(memory.run(), name="learning")
            tasks.create_task(self._renew(client, tls), name="certificate")
            loop.wake()

    def _hand_over(self) -> None:
        self._main.call_soon_threadsafe(self._gained.set)

    def _repair(self) -> None:
        if self._resync is not None:
            self._resync.soon()

    def _wake(self) -> None:
        if self._loop is not None:
            self._loop.wake()

    async def _again_and_again(self, read: Callable[[], Awaitable[object]]) -> None:
        """Read the cluster, until it can be read."""
        while True:
            try:
                await read()
            except ApiError as error:
                _log.warning("cannot list the cluster yet, again soon: %s", error)
                await asyncio.sleep(1.0)
            else:
                return

    # --- health -------------------------------------------------------------------------------------------------------

    def _watch_delivers(self) -> tuple[bool, str]:
        lag = self._heartbeat.lag()
        if not self._watch.alive:
            return False, "the watch has ended"
        return lag < _WATCH_LAG_SECONDS, f"the last renewal of the Lease is {lag:.0f} s late"

    def _watch_started(self) -> tuple[bool, str]:
        return self._watch.ready.is_set(), "started" if self._watch.ready.is_set() else "starting"

    def _loop_turns(self) -> tuple[bool, str]:
        if self._loop is None:
            return True, f"standing by; {self._lease.holder or 'nobody'} leads"
        age = time.monotonic() - self._loop.turned
        return age < _LOOP_STALL_SECONDS, f"turned {age:.0f} s ago"

    def _event_age(self) -> float:
        return min((one.age for one in self._store.stats().values() if one.age is not None), default=float("inf"))

    # --- certificate and label ----------------------------------------------------------------------------------------

    async def _certificate(self, client: Client) -> TlsMaterial:
        path = SECRETS.one(_SECRET, self._settings.namespace)

        async def load() -> StoredSecret | None:
            try:
                raw = await client.get(path)
            except NotFound:
                return None
            data = {key: base64.b64decode(value) for key, value in (raw.get("data") or {}).items()}
            return StoredSecret(data, raw["metadata"]["resourceVersion"])

        async def save(data: Mapping[str, bytes], version: str | None) -> bool:
            metadata = {"name": _SECRET, "namespace": self._settings.namespace}
            if version is not None:
                metadata["resourceVersion"] = version
            body = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": metadata,
                "type": "Opaque",
                "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
            }
            try:
                if version is None:
                    await client.post(SECRETS.all(self._settings.namespace), body)
                else:
                    await client.put(path, body)
            except (AlreadyExists, Conflict):
                return False
            return True

        service = f"charterer-progress.{self._settings.namespace}.svc"
        host = urlsplit(self._settings.url_for_pods).hostname or service
        names = dict.fromkeys((host, service, f"{service}.cluster.local", "charterer-progress"))
        return await ensure_tls(load, save, tuple(names), datetime.now(UTC))

    async def _renew(self, client: Client, context: ssl.SSLContext) -> None:
        while True:
            await asyncio.sleep(_RENEWAL_CHECK_SECONDS)
            material = await self._certificate(client)
            material.reload(context)

    async def _label_self(self, client: Client, leader: str) -> None:
        """The Service of the progress endpoint selects the leader's pod. Outside a cluster there is no such pod."""
        body = {"metadata": {"labels": {_LEADER_LABEL: leader}}}
        try:
            await client.merge_patch(PODS.one(self._settings.pod_name, self._settings.namespace), body)
        except ApiError as error:
            _log.info("not labelled as leader=%s: %s", leader, error)


def _review(client: Client) -> PostReview:
    async def post(body: Mapping[str, object]) -> Mapping[str, object]:
        return await client.post(TOKEN_REVIEWS.all(), body)

    return post


def _die(why: str) -> None:
    """Another may lead from now on, so nothing more may leave this process; or it is blind. It is started anew."""
    _log.error("%s: ending at once", why)
    logging.shutdown()
    os._exit(1)
