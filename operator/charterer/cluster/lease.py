"""Leader election with a coordination.k8s.io Lease: one thread renews the Lease, a second one watches the clock.

The process learns in time that it no longer leads, even if the main loop hangs or the API server accepts calls and
never answers. ``Election`` has the rules.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import ssl
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, NoReturn

from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from charterer.cluster.client import RawObject, parsed_object
from charterer.cluster.credentials import Access, NoAccess
from charterer.cluster.errors import (
    READS,
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    OutcomeUnknown,
    Unauthorized,
    Unreachable,
    classify,
)
from charterer.cluster.paths import LEASES

# Calls to the API server without an event loop. The Lease's thread uses them, so that a blocked event loop does not
# delay the thread.


class BlockingClient:
    """A client with one persistent connection, for one thread at a time. It raises ``charterer.cluster.errors``.

    ``timeout`` (seconds) limits the connecting and then each read or write, not the whole call. Nothing is repeated.
    """

    def __init__(self, access: Access, timeout: float) -> None:
        self._access = access
        self._timeout = timeout
        self._api: ApiClient | None = None
        self._tls: ssl.SSLContext | None = None

    def call(self, method: str, path: str, body: RawObject | None = None) -> RawObject:
        """Send one request and return the JSON object of the answer."""
        try:
            credential = self._access.credential()
        except NoAccess as error:
            raise Unreachable(method, path, 0, "NotConnected", f"not sent: {error}") from error
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if credential.header is not None:
            headers["Authorization"] = credential.header
        api = self._client(credential.tls)
        try:
            request = api.param_serialize(method, path, header_params=headers, body=body)
            response = api.call_api(*request, _request_timeout=self._timeout)
            answer = response.read()
        except (NewConnectionError, ConnectTimeoutError) as error:
            raise Unreachable(method, path, 0, "NotConnected", f"not sent: {error}") from error
        except (HTTPError, ApiException, OSError) as error:
            self.close()
            lost = Unreachable if method in READS else OutcomeUnknown
            raise lost(method, path, 0, "NoAnswer", f"no answer: {type(error).__name__} {error}".rstrip()) from error
        if response.status >= 300:
            failure = classify(method, path, response.status, response.headers, answer)
            if isinstance(failure, Unauthorized):
                self._access.refused(credential)
            raise failure
        return parsed_object(method, path, response.status, answer)

    def close(self) -> None:
        """Close the connection. The next call opens another connection."""
        if self._api is not None:
            self._api.close()
            self._api = None

    def _client(self, tls: ssl.SSLContext) -> ApiClient:
        if self._api is None or self._tls is not tls:
            self.close()
            self._api, self._tls = ApiClient(self._access.configuration), tls
            self._api.user_agent = "charterer"
            self._api.rest_client.pool_manager.connection_pool_kw.update(
                # By default the library makes a context itself. It would be stricter (Python 3.13's), and would be made
                # from key files that are deleted by now.
                ssl_context=tls,
                ca_certs=None,
                cert_file=None,
                key_file=None,
            )
        return self._api


# The rules of leadership, computed from the observed Leases and their times, without I/O or a clock of their own.
#
# All times are seconds of one steady clock of this process and are never compared with the Lease's own timestamps. A
# candidate measures the Lease's duration from the time at which it saw the last change of the Lease. A leader measures
# from the time before it sent its last renewal. So the clocks of two machines may differ, if they run at about the same
# speed.


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Times in seconds. A leader that has not renewed for ``renew_deadline`` stops. Other candidates take over after
    ``duration``.

    A leader that stops ends its process in the time between the two. This time also allows for clocks of unequal speed.
    A leader also stops if it renews its Lease, but the API server answers none of its other calls for ``act_deadline``.
    """

    duration: float = 15.0
    renew: float = 5.0
    retry: float = 2.0
    renew_deadline: float = 10.0
    act_deadline: float = 30.0

    def __post_init__(self) -> None:
        if not (self.retry <= self.renew < self.renew_deadline < self.duration):
            raise ValueError(f"need retry <= renew < renew_deadline < duration, not {self}")


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The Lease as it was read. ``holder`` is empty if the Lease was released. ``duration`` is in seconds."""

    holder: str
    duration: float
    transitions: int
    resource_version: str


class Election:
    """The state of one candidate. Not thread-safe."""

    def __init__(self, identity: str, times: LeaseTimes) -> None:
        self._identity = identity
        self._times = times
        self._seen_at = float("-inf")
        self.record: LeaseRecord | None = None
        """The Lease as last read, or None if it does not exist."""
        self.deadline = float("-inf")
        """The time until which this candidate may act as the leader, or minus infinity while it does not lead."""

    @property
    def leading(self) -> bool:
        """Whether this candidate holds the Lease, as far as it knows."""
        return self.deadline > float("-inf")

    def observe(self, record: LeaseRecord | None, at: float) -> None:
        """Record the Lease as it was read at ``at``."""
        before = self.record
        if record is None or before is None or record.resource_version != before.resource_version:
            self._seen_at = at
        self.record = record

    def may_take(self, at: float) -> bool:
        """Whether to take or renew the Lease. True if it has no holder, if this candidate holds it, or if its duration
        has passed.
        """
        if self.record is None or self.record.holder in ("", self._identity):
            return True
        return at - self._seen_at >= self.record.duration

    def renewed(self, record: LeaseRecord, asked: float, at: float) -> None:
        """Record that the API server accepted, at ``at``, the renewal that was sent at ``asked``."""
        self.observe(record, at)
        self.deadline = asked + self._times.renew_deadline

    def resign(self) -> None:
        """Stop leading."""
        self.deadline = float("-inf")

    def other_holder(self) -> str | None:
        """The process that took the Lease from this candidate. None if this candidate holds it or did not lead
        before.
        """
        if not self.leading or self.record is None or self.record.holder == self._identity:
            return None
        return self.record.holder or "nobody"


# A check that the watch delivers events. Every renewal of the Lease (one every few seconds) must come back as an event.


_REMEMBERED = 1_000
"""Most undelivered renewals that are stored. A silent watch ends the process long before there are so many."""


class Heartbeat:
    """Compares the renewals of the Lease with the events that the watch delivers. Thread-safe.

    A standby also sees the leader's renewals. While the API server is unreachable there are no renewals, so the check
    does not fail. The check writes no object, because the Lease is renewed anyway.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._undelivered: deque[tuple[int, float]] = deque(maxlen=_REMEMBERED)
        self._delivered = -1

    def renewed(self, resource_version: int) -> None:
        """Record that the Lease's own connection saw this resourceVersion."""
        with self._lock:
            newest = self._undelivered[-1][0] if self._undelivered else self._delivered
            if resource_version > newest:
                self._undelivered.append((resource_version, self._clock()))

    def delivered(self, resource_version: int) -> None:
        """Record that the watch delivered this resourceVersion of the Lease."""
        with self._lock:
            self._delivered = max(self._delivered, resource_version)
            while self._undelivered and self._undelivered[0][0] <= self._delivered:
                self._undelivered.popleft()

    def lag(self) -> float:
        """Age of the oldest undelivered renewal in seconds, or 0 if all are delivered."""
        with self._lock:
            return self._clock() - self._undelivered[0][1] if self._undelivered else 0.0


__all__ = ["Lease", "LeaseTimes", "steady"]


_CLOCK_CHECK_SECONDS: Final = 0.5
"""Seconds between two checks of the clock. The clock may jump while a machine is suspended."""


def steady() -> float:
    """Seconds of a clock that never goes back.

    If the system has a clock that also runs while the machine is suspended, that clock is used.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Lease:
    """A candidate for one Lease, and its holder while it leads.

    ``on_gained()`` is called once. ``on_lost(why)`` is called at most once, after ``on_gained``. Threads of this object
    call both. After ``on_lost`` the process must end at once, because another process may lead.

    ``identity`` is the name of the ``pod``, an underscore, which no pod name has, and a random part. So two processes
    with the same pod name do not both lead, and a restarted container waits like any other candidate.

    ``annotations`` are the holder's annotations on the Lease. ``silence`` returns the seconds for which the API server
    has not answered the process's other calls.
    """

    def __init__(
        self,
        access: Access,
        name: str,
        namespace: str,
        pod: str,
        *,
        on_gained: Callable[[], None],
        on_lost: Callable[[str], None],
        annotations: Mapping[str, str] = MappingProxyType({}),
        heartbeat: Heartbeat | None = None,
        silence: Callable[[], float] = lambda: 0.0,
        times: LeaseTimes | None = None,
        clock: Callable[[], float] = steady,
    ) -> None:
        self._times = times or LeaseTimes()
        self._name, self._namespace = name, namespace
        self.identity = f"{pod}_{secrets.token_hex(4)}"
        self._on_gained, self._on_lost, self._heartbeat, self._clock = on_gained, on_lost, heartbeat, clock
        self._annotations = dict(annotations)
        self._silence = silence
        self._http = BlockingClient(access, timeout=self._times.renew_deadline / 3)
        self._acquired = ""
        self._outdated = False
        self._lock = threading.Lock()
        self._election = Election(self.identity, self._times)
        self._stopping = threading.Event()
        self._renewer = threading.Thread(target=self._renew, name="charterer-lease", daemon=True)
        self._watchdog = threading.Thread(target=self._watch_clock, name="charterer-lease-clock", daemon=True)

    def start(self) -> None:
        """Start the threads that compete for leadership."""
        self._renewer.start()
        self._watchdog.start()

    def release(self, timeout: float = 5.0) -> None:
        """Stop, and release the Lease so that the next candidate leads at once. ``on_lost`` is not called.

        From this call on, the process may change nothing in the cluster or a cloud.
        """
        with self._lock:
            was_leading = self._election.leading
            self._election.resign()
        self._stopping.set()
        if self._renewer.is_alive():
            self._renewer.join(timeout)
        record = self._election.record
        if was_leading and record is not None and not self._renewer.is_alive():
            try:
                self._put(record, "")
            except ApiError as error:
                log.warning("the Lease could not be given up, others wait until it has run out: %s", error)
        self._http.close()

    def remaining(self) -> float:
        """Seconds for which this process is certain to lead, or 0 if it does not lead."""
        return max(0.0, self.deadline() - self._clock())

    def deadline(self) -> float:
        """The time on this object's clock at which leadership ends, or minus infinity if this process does not lead."""
        with self._lock:
            return self._election.deadline

    @property
    def holder(self) -> str:
        """The identity of the leader as last read, or an empty text if there is none or nothing is known."""
        with self._lock:
            return self._election.record.holder if self._election.record else ""

    # --- the renewing thread ------------------------------------------------------------------------------------------

    def _renew(self) -> None:
        while not self._stopping.is_set():
            pause = self._times.retry
            try:
                if self._attempt():
                    pause = self._times.renew
            except ApiError as error:
                log.warning("Lease %s/%s: %s", self._namespace, self._name, error)
            except Exception as error:  # such as a malformed Lease; this thread must not end
                log.error("Lease %s/%s: %s: %s", self._namespace, self._name, type(error).__name__, error)
            self._stopping.wait(pause)

    def _attempt(self) -> bool:
        """Take or renew the Lease if the rules of the election allow it. Returns whether the Lease was written."""
        if not self._election.leading or self._outdated:
            self._observe()
        elif self._write():
            return True
        else:
            self._observe()
        holder = self._election.other_holder()
        if holder is not None:
            self._lose(f"the Lease is held by {holder}")
            return False
        return self._election.may_take(self._clock()) and self._write()

    def _write(self) -> bool:
        """Take or renew the Lease as it was last read.

        Returns False if the Lease has changed since. Either another process wrote it, or this process did and the
        answer was lost.
        """
        asked = self._clock()
        try:
            raw = self._put(self._election.record, self.identity)
        except (Conflict, AlreadyExists, NotFound):
            self._outdated = True
            return False
        self._hold(raw, asked)
        return True

    def _observe(self) -> None:
        try:
            raw = self._http.call("GET", LEASES.one(self._name, self._namespace))
        except NotFound:
            with self._lock:
                self._election.observe(None, self._clock())
            self._outdated = False
            return
        self._outdated = False
        record = _record(raw)
        with self._lock:
            self._election.observe(record, self._clock())
        self._renewed(record)

    def _hold(self, raw: RawObject, asked: float) -> None:
        record = _record(raw)
        with self._lock:
            if self._stopping.is_set():
                self._election.observe(record, self._clock())  # ``release`` writes over exactly this version
                return
            gained = not self._election.leading
            self._election.renewed(record, asked, self._clock())
        self._renewed(record)
        if gained:
            log.info("%s leads: it holds the Lease %s/%s", self.identity, self._namespace, self._name)
            self._on_gained()

    def _renewed(self, record: LeaseRecord) -> None:
        if self._heartbeat is not None:
            self._heartbeat.renewed(int(record.resource_version))

    def _put(self, record: LeaseRecord | None, holder: str) -> RawObject:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        changes = record is None or record.holder != holder
        transitions = 0 if record is None else record.transitions + (changes and bool(holder))
        metadata: dict[str, Any] = {"name": self._name, "namespace": self._namespace, "annotations": self._annotations}
        spec: dict[str, Any] = {
            "holderIdentity": holder,
            "leaseDurationSeconds": math.ceil(self._times.duration) if holder else 1,
            "leaseTransitions": transitions,
            "renewTime": now,
        }
        if changes or not self._acquired:
            self._acquired = now
        spec["acquireTime"] = self._acquired
        body: RawObject = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        if record is None:
            return self._http.call("POST", LEASES.all(self._namespace), body)
        metadata["resourceVersion"] = record.resource_version
        return self._http.call("PUT", LEASES.one(self._name, self._namespace), body)

    # --- the clock-watching thread ------------------------------------------------------------------------------------

    def _watch_clock(self) -> None:
        while not self._stopping.is_set():
            deadline = self.deadline()
            late = self._clock() - deadline
            if deadline > float("-inf") and late >= 0:
                self._lose(f"the Lease was not renewed for {self._times.renew_deadline + late:.1f} s")
                return
            silence = self._silence()
            if deadline > float("-inf") and silence >= self._times.act_deadline:
                self._lose(f"for {silence:.0f} s the API server answered nothing but renewals of the Lease")
                return
            self._stopping.wait(min(_CLOCK_CHECK_SECONDS, -late) if deadline > float("-inf") else _CLOCK_CHECK_SECONDS)

    def _lose(self, why: str) -> None:
        with self._lock:
            if not self._election.leading:
                return
            self._election.resign()
        self._stopping.set()
        log.error("%s leads no more: %s", self.identity, why)
        self._on_lost(why)


def _record(raw: RawObject) -> LeaseRecord:
    spec = raw.get("spec") or {}
    return LeaseRecord(
        holder=spec.get("holderIdentity") or "",
        duration=float(spec.get("leaseDurationSeconds") or 0),
        transitions=int(spec.get("leaseTransitions") or 0),
        resource_version=raw["metadata"]["resourceVersion"],
    )


# A check that the leader's main client gets answers. The renewals of the Lease have their own connection, so they do
# not show this.
#
# A process may renew its Lease and do nothing else, because it has no file descriptors for new connections or because a
# computation blocks its event loop. Such a process must give up the Lease, so that a working replica leads.
# computation blocks its event loop. Such a process must give up the Lease, so that a working replica leads.


log = logging.getLogger(__name__)


class Pulse:
    """Records when the API server last answered the client. ``silence`` may be called from any thread."""

    def __init__(self, *, clock: Callable[[], float] = steady) -> None:
        self._clock = clock
        self._answered_at: float | None = None

    def silence(self) -> float:
        """Seconds without an answer, or 0 until ``beat`` runs."""
        answered_at = self._answered_at
        return 0.0 if answered_at is None else self._clock() - answered_at

    async def beat(self, ask: Callable[[], Awaitable[object]], pause: float) -> NoReturn:
        """Call the API server every ``pause`` seconds until cancelled. A refusal is also an answer."""
        self._answered_at = self._clock()
        while True:
            try:
                await ask()
            except ApiError as error:
                answered = error.status != 0
                log.warning("the API server was asked by the leader's client: %s", error)
            else:
                answered = True
            if answered:
                self._answered_at = self._clock()
            await asyncio.sleep(pause)
