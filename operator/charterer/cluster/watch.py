"""The watch: kopf in a thread with its own event loop. Its only handlers put events into the store and the heartbeat.

kopf lists a kind again if its stream cannot be resumed (after an outage, or a change of its CRD). kopf does not report
objects that were deleted in between. The watch gives kopf an HTTP session that detects such a list and requests a
repair of the store.

The watch uses only kopf's resilient watch streams: kopf writes no finalizer, annotation, progress or Event.
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
from charterer.cluster.paths import LEASES, SELF_SUBJECT_ACCESS_REVIEWS, Resource
from charterer.cluster.store import Store, WatchedKind

# Waiting until the API server serves the kinds to watch.
#
# kopf discovers kinds only once, at its start. It never watches a kind that was not served then. Without the wait, an
# operator that starts together with its CRDs would not see their objects. If a kind may not be listed, kopf would
# request its list again and again.


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
    """Wait until all ``needed`` resources are served. Returns the needed resources, and the ``optional`` resources that
    are served.

    An optional resource that this process may not list is left out.

    Returns an empty set once ``stopped`` returns True. Logs the missing resources whenever they change.
    """
    reported: object = None
    while not stopped():
        try:
            lacking = await _missing(session, server, [*needed, *optional])
            missing = [resource for resource in lacking if resource in needed]
            if not missing:
                present = frozenset(optional) - frozenset(lacking)
                return frozenset([*needed, *[each for each in present if await _may_list(session, server, each)]])
        except (aiohttp.ClientError, TimeoutError) as error:
            log.debug("the API server does not say what it serves: %s", error)
        else:
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


async def _may_list(session: aiohttp.ClientSession, server: str, resource: Resource) -> bool:
    """Whether the API server lets this process list objects of a kind, in all namespaces."""
    asked = {"verb": "list", "group": resource.group, "resource": resource.plural}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    url = f"{server}{SELF_SUBJECT_ACCESS_REVIEWS.all()}"
    async with session.post(url, json=review, timeout=_TIMEOUT) as response:
        response.raise_for_status()
        return bool((await response.json())["status"].get("allowed"))


async def _get(session: aiohttp.ClientSession, url: str) -> Any:
    """The JSON answer. If nothing is served at this address yet, an empty object."""
    async with session.get(url, timeout=_TIMEOUT) as response:
        if response.status == 404:
            return {}
        response.raise_for_status()
        return await response.json()


SERVER_TIMEOUT: Final = 290
"""Seconds after which the API server ends a watch. kopf then resumes the watch where it ended."""
INACTIVITY_TIMEOUT: Final = 70.0
"""Seconds without any message after which a stream counts as dead. Even a quiet stream gets a bookmark every minute."""
LATER_SECONDS: Final = 30.0
"""Seconds between two checks whether an optional kind is served by now."""
_CONNECT_TIMEOUT: Final = 10.0
_NEVER_SET: Final = "charterer.dev/never-set"
_KOPF_TASKS: Final = "kopf._core.reactor."
"""Prefix of the loggers of the tasks that run kopf's watches."""
_IDENTITY: Final[Any] = "charterer"
"""Without an identity kopf needs the process's user name, which the image's uid may lack. Nobody reads the identity."""


class Watch:
    """Watches the store's kinds in the whole cluster, and one Lease as the heartbeat, until stopped.

    kopf discovers kinds only at its start. The watch checks every ``later`` seconds whether an optional kind is served
    and may be listed by now, and restarts kopf if one is.

    If the watch ends by itself, ``alive`` becomes False and ``on_end`` is called: the process should restart.
    ``on_relist`` is called if a kind was listed again, because deletions may have been missed. The thread of the watch
    calls both.
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
        """Set after kopf has started. The first lists may still be incomplete."""
        self._stop = threading.Event()
        self._stop_kopf: Callable[[], object] = lambda: None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="charterer-watch", daemon=True)

    def start(self) -> None:
        """Start the thread. The call returns at once."""
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """Stop the watch and wait until its thread has ended, at most ``timeout`` seconds."""
        self._stop.set()
        self._stop_kopf()
        self._thread.join(timeout)

    @property
    def alive(self) -> bool:
        """Whether the watch is running or still trying to start."""
        return self._thread.is_alive() and not self._ended.is_set()

    def _run(self) -> None:
        logging.getLogger("kopf").setLevel(logging.ERROR)  # kopf logs every event
        # kopf logs every repeated request as an error
        logging.getLogger("kopf._cogs.clients").setLevel(logging.CRITICAL)
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
        """Mark the watch as ended. Call ``on_end`` once, unless ``stop`` was called."""
        if not self._ended.is_set():
            self._ended.set()
            if not self._stop.is_set():
                self._on_end()

    async def _watch(self) -> None:
        """Watch until stopped.

        Each stop flag is an asyncio.Event. With a threading.Event, kopf would also wait after a failure.
        """
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
        """Wait for all needed kinds and return the kinds to watch."""
        needed = [kind.resource for kind in self._store.kinds if not kind.optional]
        optional = [kind.resource for kind in self._store.kinds if kind.optional]
        async with self._access.session() as session:
            served = await all_served(session, self._access.server, needed, optional, self._stop.is_set)
        return [kind for kind in self._store.kinds if kind.resource in served]

    async def _when_more_are_served(self, stop: asyncio.Event) -> None:
        """Stop kopf once another optional kind is served. ``_watch`` then restarts kopf with that kind."""
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
        """Detect the first page of a list."""
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
            # kopf logs in again after a 401 or a broken TLS stream. The session reads the token at every request.
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
        settings.process.ultimate_exiting_timeout = None  # otherwise kopf would kill this process
        settings.posting.enabled = False
        settings.scanning.disabled = True
        settings.peering.standalone = True
        settings.queueing.worker_limit = None
        settings.queueing.idle_timeout = 0.5  # a task per object lives this many seconds after its last event
        settings.watching.server_timeout = SERVER_TIMEOUT
        settings.watching.client_timeout = SERVER_TIMEOUT + INACTIVITY_TIMEOUT
        settings.watching.connect_timeout = _CONNECT_TIMEOUT
        settings.watching.inactivity_timeout = INACTIVITY_TIMEOUT
        settings.watching.chunk_size = 250
        settings.networking.request_timeout = 60.0
        settings.networking.connect_timeout = _CONNECT_TIMEOUT
        settings.networking.error_backoffs = _WatchBackoff()
        # kopf removes its finalizer from every object that it handles. Another operator based on kopf may use the
        # default name.
        settings.persistence.finalizer = _NEVER_SET
        settings.persistence.progress_storage = _NoProgress()
        settings.persistence.diffbase_storage = _NoDiffBase()
        for kind in self._kinds:
            where = (kind.resource.group, kind.resource.version, kind.resource.plural)
            # kopf has one stream per resource. If kinds of one resource have different selectors, the stream has all
            # objects, and each kind decodes its own.
            alike = [other for other in self._kinds if other.resource == kind.resource]
            if kind.labels and {other.labels for other in alike} == {kind.labels}:
                settings.watching.label_selectors[where] = kind.labels
            if kind.fields and {other.fields for other in alike} == {kind.fields}:
                settings.watching.field_selectors[where] = kind.fields
        settings.watching.field_selectors[LEASES.group, LEASES.version, LEASES.plural] = self._lease
        return settings


class _Failures(logging.Handler):
    """Detects that kopf gave up the watch of a kind. kopf does so after most refusals, and after an error that ends a
    stream.

    kopf then stops the watches of the other kinds too, and may not return. kopf reports this only in its log.
    """

    def __init__(self, on_failure: Callable[[], object]) -> None:
        super().__init__(logging.ERROR)
        self._on_failure = on_failure
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.name.startswith(_KOPF_TASKS) and record.thread == self._thread:
            self._on_failure()


class _WatchBackoff:
    """An endless series of seconds between repeated requests, because no outage or missing permission may end the
    watch.
    """

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((0.1, 0.2, 0.5, 1.0), itertools.repeat(2.0))


class _NoProgress(kopf.ProgressStorage):
    """Stores no progress, because no handler has progress that must survive."""

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
    """Stores no essence of an object. To build the essence, every object would be copied at every event."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None
