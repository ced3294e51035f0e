"""The watch: kopf in a thread and event loop of its own, whose only handler puts events into the store.

kopf lists a kind anew when its stream cannot be resumed (after an outage, or when its CRD was changed), and does not
report what was deleted meanwhile. It lists through a session of Charterer's, which notices that and has the store
repaired.

Only kopf's resilient watch streams are used: it never writes a finalizer, an annotation, its progress or an Event.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import aiohttp
import kopf

from charterer.cluster.credentials import Access
from charterer.cluster.lease import Heartbeat
from charterer.cluster.paths import LEASES, Resource
from charterer.cluster.store import Store, WatchedKind

# Waits until the API server serves the kinds that are to be watched.
#
# kopf asks once, when it starts, and never watches a kind that was not served then: an operator that is started
# together with its CRDs would not see their objects.


log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 0.5
_TIMEOUT: Final = aiohttp.ClientTimeout(total=10.0)


async def all_served(
    session: aiohttp.ClientSession,
    server: str,
    needed: Sequence[Resource],
    optional: Sequence[Resource],
    stopped: Callable[[], bool],
) -> frozenset[Resource]:
    """Return once all that are ``needed`` are served, or ``stopped``: all that are served, the ``optional`` ones too.

    Logs what is missing whenever that changes.
    """
    reported: object = None
    while not stopped():
        try:
            lacking = await _missing(session, server, [*needed, *optional])
        except (aiohttp.ClientError, TimeoutError) as error:
            log.debug("the API server does not say what it serves: %s", error)
        else:
            missing = [resource for resource in lacking if resource in needed]
            if not missing:
                return frozenset(needed) | (frozenset(optional) - frozenset(lacking))
            if missing != reported:
                log.warning("not served yet: %s: helm install charterer-crds", ", ".join(map(str, missing)))
            reported = missing
        await asyncio.sleep(_RETRY_SECONDS)
    return frozenset()


async def _missing(session: aiohttp.ClientSession, server: str, resources: Sequence[Resource]) -> list[Resource]:
    groups = {group["name"] for group in (await _get(session, f"{server}/apis"))["groups"]} | {""}
    served: dict[str, set[str]] = {}
    for path in {resource.version_path for resource in resources if resource.group in groups}:
        listed = (await _get(session, server + path)).get("resources") or ()
        served[path] = {resource["name"] for resource in listed}
    return [resource for resource in resources if resource.plural not in served.get(resource.version_path, ())]


async def _get(session: aiohttp.ClientSession, url: str) -> Any:
    """The answer; an empty object where nothing is served under this address yet."""
    async with session.get(url, timeout=_TIMEOUT) as response:
        if response.status == 404:
            return {}
        response.raise_for_status()
        return await response.json()


SERVER_TIMEOUT: Final = 290
"""Seconds after which the API server ends a watch, which is then resumed where it was."""
INACTIVITY_TIMEOUT: Final = 70.0
"""Seconds without even a bookmark (they come every minute) after which a stream counts as dead."""
LATER_SECONDS: Final = 30.0
"""Seconds between two questions whether an optional kind is served by now."""
_CONNECT_TIMEOUT: Final = 10.0
_NEVER_SET: Final = "charterer.dev/never-set"
_KOPF_TASKS: Final = "kopf._core.reactor."
"""Loggers of the tasks that kopf keeps up its watches with."""
_IDENTITY: Final[Any] = "charterer"
"""Without it kopf asks for the name of the process's user, which the uid of an image need not have. Nobody reads it."""


class Watch:
    """Watches the store's kinds in the whole cluster, and one Lease as the heartbeat, until stopped.

    kopf asks what is served only when it starts. When an optional kind is served later, kopf is started anew: asked
    every ``later`` seconds.

    ``alive`` turns False when it ends by itself, which is fatal: the process should be restarted. Then ``on_end`` is
    called. ``on_relist`` is called when a kind was listed anew and deletions may have been missed. Both are called in
    the thread of the watch.
    """

    def __init__(
        self,
        access: Access,
        store: Store,
        heartbeat: Heartbeat,
        *,
        lease: str,
        namespace: str,
        on_relist: Callable[[], object] = lambda: None,
        on_end: Callable[[], object] = lambda: None,
        later: float = LATER_SECONDS,
    ) -> None:
        self._access = access
        self._later = later
        self._store = store
        self._heartbeat = heartbeat
        self._on_relist = on_relist
        self._on_end = on_end
        self._listed: set[str] = set()
        self._kinds: Sequence[WatchedKind[Any]] = ()
        self._lease = f"metadata.name={lease},metadata.namespace={namespace}"
        self.ready = threading.Event()
        """Set when kopf has started (its first lists may still be on their way)."""
        self._stop = threading.Event()
        self._stop_kopf: Callable[[], object] = lambda: None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="charterer-watch", daemon=True)

    def start(self) -> None:
        """Start the thread; returns at once."""
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """Ask it to end and wait for that."""
        self._stop.set()
        self._stop_kopf()
        self._thread.join(timeout)

    @property
    def alive(self) -> bool:
        """Whether it is watching (or trying to)."""
        return self._thread.is_alive() and not self._ended.is_set()

    def _run(self) -> None:
        logging.getLogger("kopf").setLevel(logging.ERROR)  # it logs every event
        logging.getLogger("kopf._cogs.clients").setLevel(logging.CRITICAL)  # and every repeated request, as an error
        failures = _Failures(self._end)
        logging.getLogger("kopf").addHandler(failures)
        try:
            asyncio.run(self._watch())
        except Exception:
            log.exception("the watch failed")
        finally:
            self._end()
            logging.getLogger("kopf").removeHandler(failures)

    def _end(self) -> None:
        """It watches no more. Whoever made it is told once, unless they stopped it."""
        if not self._ended.is_set():
            self._ended.set()
            if not self._stop.is_set():
                self._on_end()

    async def _watch(self) -> None:
        """Until it is stopped. The flag is this loop's own: for a thread's, kopf would wait also after a failure."""
        loop = asyncio.get_running_loop()
        self._kinds = await self._served()
        while not self._stop.is_set():
            stop = asyncio.Event()

            def stop_kopf(stop: asyncio.Event = stop) -> None:
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(stop.set)

            self._stop_kopf = stop_kopf
            if self._stop.is_set():
                return
            more = asyncio.create_task(self._when_more_are_served(stop))
            await kopf.operator(
                registry=self._registry(),
                settings=self._settings(),
                clusterwide=True,
                standalone=True,
                identity=_IDENTITY,
                stop_flag=stop,
                ready_flag=self.ready,
            )
            more.cancel()
            if not stop.is_set():
                return

    async def _served(self) -> Sequence[WatchedKind[Any]]:
        """The kinds to watch, once all that are needed are served."""
        needed = [kind.resource for kind in self._store.kinds if not kind.optional]
        optional = [kind.resource for kind in self._store.kinds if kind.optional]
        async with self._access.session() as session:
            served = await all_served(session, self._access.server, needed, optional, self._stop.is_set)
        return [kind for kind in self._store.kinds if kind.resource in served]

    async def _when_more_are_served(self, stop: asyncio.Event) -> None:
        """Stop kopf when an optional kind that was not served is served, which is to be watched from then on."""
        while len(self._kinds) < len(self._store.kinds):
            await asyncio.sleep(self._later)
            served = await self._served()
            if len(served) > len(self._kinds):
                names = ", ".join(str(kind.resource) for kind in served if kind not in self._kinds)
                log.info("%s are served now: watching them too", names)
                self._kinds = served
                stop.set()
                return

    async def _on_answer(self, _: object, __: object, params: aiohttp.TraceRequestEndParams) -> None:
        """Notice the first page of a list."""
        query, path = params.url.query, params.url.path
        if "watch" in query or "continue" in query or params.method != "GET" or params.response.status != 200:
            return
        if not any(path.endswith(kind.resource.all()) for kind in self._kinds):
            return
        if path in self._listed:
            log.info("%s are listed anew: deletions may have been missed", path.rpartition("/")[2])
            self._on_relist()
        self._listed.add(path)

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()

        @kopf.on.login(registry=registry)
        async def log_in(**_: Any) -> kopf.AiohttpSession:
            # Asked again after a 401 or a broken TLS stream; the session itself asks for the token at every request.
            trace = aiohttp.TraceConfig()
            trace.on_request_end.append(self._on_answer)
            session = self._access.session(connections=0, traces=(trace,))
            return kopf.AiohttpSession(server=self._access.server, aiohttp_session=session)

        for kind in self._kinds:
            where = kind.resource
            kopf.on.event(where.group, where.version, where.plural, registry=registry)(self._handler(kind))
        kopf.on.event(LEASES.group, LEASES.version, LEASES.plural, registry=registry)(self._on_lease)
        return registry

    def _handler(self, kind: WatchedKind[Any]) -> Callable[..., Awaitable[None]]:
        async def on_event(*, event: kopf.RawEvent, **_: Any) -> None:
            if event["type"] == "DELETED":
                self._store.remove(kind, event["object"])
            else:
                self._store.put(kind, event["object"])

        return on_event

    async def _on_lease(self, *, event: kopf.RawEvent, **_: Any) -> None:
        self._heartbeat.delivered(int(event["object"]["metadata"]["resourceVersion"]))

    def _settings(self) -> kopf.OperatorSettings:
        settings = kopf.OperatorSettings()
        settings.process.ultimate_exiting_timeout = None  # it would kill this process
        settings.posting.enabled = False
        settings.scanning.disabled = True
        settings.peering.standalone = True
        settings.queueing.worker_limit = None
        settings.queueing.idle_timeout = 0.5  # a task per object lives this long after its last event
        settings.watching.server_timeout = SERVER_TIMEOUT
        settings.watching.client_timeout = SERVER_TIMEOUT + INACTIVITY_TIMEOUT
        settings.watching.connect_timeout = _CONNECT_TIMEOUT
        settings.watching.inactivity_timeout = INACTIVITY_TIMEOUT
        settings.watching.chunk_size = 250
        settings.networking.request_timeout = 60.0
        settings.networking.connect_timeout = _CONNECT_TIMEOUT
        settings.networking.error_backoffs = _WatchBackoff()
        # kopf takes its own finalizer off every object it handles: with the default one, also another operator's.
        settings.persistence.finalizer = _NEVER_SET
        settings.persistence.progress_storage = _NoProgress()
        settings.persistence.diffbase_storage = _NoDiffBase()
        for kind in self._kinds:
            where = (kind.resource.group, kind.resource.version, kind.resource.plural)
            # kopf has one stream for a resource: where kinds of it differ, all objects come, and each decodes its own
            alike = [other for other in self._kinds if other.resource == kind.resource]
            if kind.labels and {other.labels for other in alike} == {kind.labels}:
                settings.watching.label_selectors[where] = kind.labels
            if kind.fields and {other.fields for other in alike} == {kind.fields}:
                settings.watching.field_selectors[where] = kind.fields
        settings.watching.field_selectors[LEASES.group, LEASES.version, LEASES.plural] = self._lease
        return settings


class _Failures(logging.Handler):
    """Hears of it when kopf gives up the watch of a kind: after most refusals, or an error that a stream ends with.

    kopf then stops watching the other kinds too, and may not return. It tells nobody else but its log.
    """

    def __init__(self, on_failure: Callable[[], object]) -> None:
        super().__init__(logging.ERROR)
        self._on_failure = on_failure
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.name.startswith(_KOPF_TASKS) and record.thread == self._thread:
            self._on_failure()


class _WatchBackoff:
    """Seconds between repeated requests, an endless series: no outage or missing permission may end the watch."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((0.1, 0.2, 0.5, 1.0), itertools.repeat(2.0))


class _NoProgress(kopf.ProgressStorage):
    """Keeps nothing: no handler has progress that would matter."""

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None

    def purge(self, **_: Any) -> None:
        return None

    def touch(self, **_: Any) -> None:
        return None

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


class _NoDiffBase(kopf.DiffBaseStorage):
    """Compares nothing: building the essence would copy every object at every event."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None
