"""One replica: its threads, how it gains and loses leadership, and how it ends.

There are four threads: the main event loop (plan, mutations, servers), kopf's watch with its own event loop, and two
threads of the Lease. A standby keeps its store current and serves health. Only the leader plans, serves progress and
writes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import re
import signal
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from math import inf
from typing import Any, Final, NoReturn

from charterer import __version__
from charterer.api.manifests import to_annotations
from charterer.app.certificate import progress_certificate, unshared_certificate
from charterer.app.leader import Leader, until_answered
from charterer.app.settings import Settings
from charterer.app.tracing import traced
from charterer.cluster import credentials
from charterer.cluster.client import Client
from charterer.cluster.credentials import Access, NoAccess
from charterer.cluster.errors import ApiError, NotFound, Withheld
from charterer.cluster.lease import Heartbeat, Lease, Pulse
from charterer.cluster.paths import LEASES, PODS
from charterer.cluster.store import Store
from charterer.cluster.watch import Watch
from charterer.controller.outcome import Executor
from charterer.controller.surveys import Backoff
from charterer.metrics.instruments import Metrics
from charterer.providers.accounts import Adapters, adapter_for
from charterer.server.http import FEW_CONNECTIONS, health_app, metrics_app, serve
from charterer.server.tls import TlsMaterial
from charterer.spans import Span
from charterer.workloads import ALL_KINDS

# The dry run. Each mutation is logged once, with its object and content, and no mutation is sent.


_log = logging.getLogger(__name__)

_REMEMBERED: Final = 100_000
"""Number of logged mutations that are stored, so that a repeated mutation is logged only once."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_REVIEWS: Final = ("tokenreviews", "selfsubjectaccessreviews")
"""Resources whose objects are created only to ask the API server something. A creation changes nothing."""
_SECRET: Final = ("data", "stringData")
"""Fields of a Secret whose values are not logged."""
_HIDDEN: Final = "(not logged)"


class DryRunLog:
    """Logs the mutations that a dry run does not send.

    Values of Secrets and of environment variables are not logged.
    """

    def __init__(self) -> None:
        self._logged: OrderedDict[bytes, None] = OrderedDict()

    def withhold(self, method: str, path: str, body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None) -> None:
        """Log the mutation and raise Withheld. A review request changes nothing, so it is sent."""
        if path.rpartition("/")[2] in _REVIEWS:
            return
        content = json.dumps(
            _without_secrets(body, _SECRET if "/secrets" in path else ()), separators=(",", ":"), default=str
        )
        text = f"{method} {path} {content}"
        same = hashlib.sha256(_TIME.sub("", text).encode()).digest()
        if same not in self._logged:
            self._logged[same] = None
            _log.info("dry run, not written: %s", text)
            while len(self._logged) > _REMEMBERED:
                self._logged.popitem(last=False)
        raise Withheld(method, path, 0, "DryRun", "not sent: this is a dry run")


def _without_secrets(value: object, hidden: tuple[str, ...]) -> object:
    """A copy without the values of environment variables and of the ``hidden`` fields."""
    if isinstance(value, Mapping):
        return {key: _HIDDEN if key in hidden else _field(key, inner, hidden) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_secrets(inner, hidden) for inner in value]
    return value


def _field(key: str, value: object, hidden: tuple[str, ...]) -> object:
    if key != "env" or not isinstance(value, list | tuple):
        return _without_secrets(value, hidden)
    return [{**item, "value": _HIDDEN} if isinstance(item, Mapping) and "value" in item else item for item in value]


# The label by which the Service of the progress endpoint selects the leader's pod.


_LABEL: Final = "charterer.dev/leader"
_FIRST_RETRY_SECONDS: Final = 1.0
_LAST_RETRY_SECONDS: Final = 30.0


class LeaderLabel:
    """Writes the leader label of this process's pod: "false" until the process leads, then "true".

    A former process of the same pod may have left "true". ``client`` must be able to write without leading.
    """

    def __init__(self, client: Client, namespace: str, pod: str) -> None:
        self._client = client
        self._path = PODS.one(pod, namespace)
        self._leads = False
        self._changed = asyncio.Event()
        self._changed.set()
        self._backoff: Backoff[None] = Backoff(asyncio.get_running_loop().time, _FIRST_RETRY_SECONDS)

    def leads(self) -> None:
        """Record that this process leads and serves progress."""
        self._leads = True
        self._changed.set()

    async def run(self) -> NoReturn:
        """Write the label whenever it should change. Repeat a failed write until it succeeds. Runs until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            leader = "true" if self._leads else "false"
            try:
                await self._client.merge_patch(self._path, {"metadata": {"labels": {_LABEL: leader}}})
            except NotFound as error:  # outside a cluster there is no such pod
                _log.info("not labelled as leader=%s: %s", leader, error)
            except ApiError as error:
                seconds = self._backoff.failed(None, _LAST_RETRY_SECONDS, error.retry_after)
                _log.warning("not labelled as leader=%s, again in %g s: %s", leader, seconds, error)
                self._changed.set()
                await asyncio.sleep(seconds)
            else:
                self._backoff.succeeded(None)


_WATCH_LAG_SECONDS = 60.0
"""Seconds by which the watch may lag behind the Lease's renewals before the liveness probe fails. This is several
renewals.
"""
_LOOP_STALL_SECONDS = 60.0
"""Seconds without a turn of the loop before the liveness probe fails. An idle loop takes a turn every 15 seconds."""


async def run(
    settings: Settings,
    wrap: Callable[[Executor], Executor] = lambda executor: executor,
    adapters: Adapters = adapter_for,
) -> None:
    """Run until SIGTERM or SIGINT, then give the Lease up.

    ``wrap`` lets a test wrap the executor. ``adapters`` lets a test replace a cloud by a server of its own. Raises
    NoAccess if no cluster can be found, and TracesUnavailable. If leadership is lost, the process ends at once with
    status 1.
    """
    access = credentials.load(settings.kubeconfig, settings.context)
    if access.impersonates:
        raise NoAccess("the operator acts as itself: take `as` from the user of its kubeconfig")
    with traced(os.environ) as span:
        await _run(_Replica(settings, access, wrap, adapters, span))


async def _run(replica: _Replica) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for received in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(received, stop.set)
    async with AsyncExitStack() as stack:
        await replica.stand_by(stack)
        leading = asyncio.create_task(replica.lead(stack), name="lead")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        await asyncio.wait((leading, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if leading.done():
            leading.result()
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        _log.info("stopping")


class _Replica:
    """A replica: the watch, the Lease and the health endpoint, and the leader's parts while it leads."""

    def __init__(
        self,
        settings: Settings,
        access: Access,
        wrap: Callable[[Executor], Executor],
        adapters: Adapters,
        span: Span,
    ) -> None:
        self._settings = settings
        self._access = access
        self._wrap = wrap
        self._adapters = adapters
        self._span = span
        self._metrics = Metrics(__version__, per_job=settings.job_metrics)
        self._store = Store(ALL_KINDS)
        self._heartbeat = Heartbeat()
        self._pulse = Pulse()
        self._watch = Watch(
            access,
            self._store,
            self._heartbeat,
            lease="charterer",
            namespace=settings.namespace,
            on_relist=lambda: self._main.call_soon_threadsafe(self._repair),
            on_end=lambda: _die("the watch has ended"),
        )
        self._gained = asyncio.Event()
        self._main = asyncio.get_running_loop()
        self._lease = Lease(
            access,
            "charterer",
            settings.namespace,
            settings.pod_name,
            on_gained=self._take_over,
            on_lost=lambda reason: _die(f"lost the lead ({reason})"),
            annotations=to_annotations(settings.limits, settings.not_adopted),
            heartbeat=self._heartbeat,
            silence=self._pulse.silence,
            times=settings.lease,
        )
        self._leader: Leader | None = None
        self._metrics.last_event_age(self._event_age)

    async def stand_by(self, stack: AsyncExitStack) -> None:
        """Serve health, keep the store current, compete for leadership."""
        settings = self._settings
        checks = health_app(
            live={"watch": self._watch_delivers, "loop": self._loop_turns}, ready={"watch": self._watch_started}
        )
        health = await serve(checks, settings.host, settings.http_port, limits=FEW_CONNECTIONS)
        stack.push_async_callback(health.close)
        _log.info("health on port %d", health.port)
        if settings.metrics_port is not None:
            app = metrics_app(self._metrics.exposition)
            metrics = await serve(app, settings.host, settings.metrics_port, limits=FEW_CONNECTIONS)
            stack.push_async_callback(metrics.close)
            _log.info("metrics on port %d", metrics.port)
        self._watch.start()
        stack.callback(self._watch.stop)
        if not settings.dry_run:
            self._lease.start()
            stack.callback(self._lease.release)

    async def lead(self, stack: AsyncExitStack) -> None:
        """Wait for leadership, then plan and act until cancelled."""
        settings = self._settings
        self._metrics.leading(False)
        if settings.dry_run:
            await self._lead_dry(stack)
            return
        client = await stack.enter_async_context(
            Client(self._access, fence=self._lease.remaining, wrote=self._metrics.api_written, span=self._span)
        )
        unfenced = await stack.enter_async_context(Client(self._access))
        label = LeaderLabel(unfenced, settings.namespace, settings.pod_name)
        labelling = asyncio.create_task(label.run(), name="label")
        stack.callback(labelling.cancel)
        _log.info("waiting for the lead of Lease %s/charterer as %s", settings.namespace, self._lease.identity)
        await self._gained.wait()
        self._metrics.leading(True)
        _log.info("leading")
        lease = partial(client.get, LEASES.one("charterer", settings.namespace), within=settings.lease.renew_deadline)
        beating = asyncio.create_task(self._pulse.beat(lease, settings.lease.renew), name="pulse")
        stack.callback(beating.cancel)
        material = await until_answered("the certificate", partial(progress_certificate, client, settings))
        leader = self._leader_with(client, material, self._lease.remaining)
        await leader.start(stack)
        self._leader = leader
        await leader.run(stack, label.leads)

    async def _lead_dry(self, stack: AsyncExitStack) -> None:
        """Plan and log a leader's mutations, without the Lease. Another process may lead meanwhile."""
        client = await stack.enter_async_context(Client(self._access, withhold=DryRunLog().withhold, span=self._span))
        _log.info("dry run: nothing is changed, in the cluster or in a cloud; what would be done is logged")
        material = await unshared_certificate(self._settings)
        leader = self._leader_with(client, material, lambda: inf)
        await leader.start(stack)
        self._leader = leader
        await leader.run(stack, None)

    def _leader_with(self, client: Client, material: TlsMaterial, fence: Callable[[], float]) -> Leader:
        return Leader(
            self._settings,
            client,
            self._store,
            self._metrics,
            material,
            fence,
            self._wrap,
            self._adapters,
            self._span,
        )

    def _take_over(self) -> None:
        self._main.call_soon_threadsafe(self._gained.set)

    def _repair(self) -> None:
        if self._leader is not None:
            self._leader.resync.request()

    # --- health -------------------------------------------------------------------------------------------------------

    def _watch_delivers(self) -> tuple[bool, str]:
        lag = self._heartbeat.lag()
        if not self._watch.alive:
            return False, "the watch has ended"
        return lag < _WATCH_LAG_SECONDS, f"the last renewal of the Lease is {lag:.0f} s late"

    def _watch_started(self) -> tuple[bool, str]:
        return self._watch.ready.is_set(), "started" if self._watch.ready.is_set() else "starting"

    def _loop_turns(self) -> tuple[bool, str]:
        if self._leader is None:
            return True, f"standing by; {self._lease.holder or 'nobody'} leads"
        age = self._leader.loop.seconds_since_turn()
        return age < _LOOP_STALL_SECONDS, f"turned {age:.0f} s ago"

    def _event_age(self) -> float:
        ages = (kind.age for kind in self._store.stats().values() if kind.age is not None)
        return min(ages, default=float("inf"))


def _die(reason: str) -> None:
    """End the process at once, so that it is restarted.

    Either the process cannot see the cluster, or another replica may lead from now on. In the second case this process
    must send nothing more.
    """
    _log.error("%s: ending at once", reason)
    logging.shutdown()
    os._exit(1)
