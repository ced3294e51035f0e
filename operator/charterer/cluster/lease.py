"""Leadership: a coordination.k8s.io Lease, renewed in a thread of its own, and a second thread that watches the clock.

Even if the main loop hangs, or the API server accepts calls and never answers, the process learns in time that it no
longer leads. The rules are in ``charterer.cluster.election``.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from charterer.cluster.blocking import BlockingClient
from charterer.cluster.client import RawObject
from charterer.cluster.credentials import Access
from charterer.cluster.election import Election, LeaseRecord, LeaseTimes
from charterer.cluster.errors import AlreadyExists, ApiError, Conflict, NotFound
from charterer.cluster.heartbeat import Heartbeat
from charterer.cluster.paths import LEASES

__all__ = ["Lease", "LeaseTimes", "steady"]

log = logging.getLogger(__name__)

_CLOCK_CHECK_SECONDS: Final = 0.5
"""Seconds between two checks of the clock, which may jump when a machine was suspended."""


def steady() -> float:
    """Seconds of a clock that never goes back and, where there is one, also runs while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Lease:
    """Candidate for, and holder of, one Lease.

    ``on_gained()`` is called once, ``on_lost(why)`` at most once and only after it; both from threads of this object.
    After ``on_lost`` the process must end at once: another may lead from then on. ``identity`` is the name of the
    ``pod`` and a part of this process's own, after an underscore, which no name of a pod has: two processes that take
    themselves for one pod do not both lead, and a container that starts again waits like any other candidate.
    ``annotations``: what the holder says of itself on the Lease. ``silence``: seconds for which the process got no
    answer from the API server to what it asked otherwise.
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
        """Start to stand for leadership."""
        self._renewer.start()
        self._watchdog.start()

    def release(self, timeout: float = 5.0) -> None:
        """Orderly end: stop, and give the Lease up so that the next candidate leads at once. ``on_lost`` stays silent.

        Nothing may be changed in the cluster or a cloud by this process any more.
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
        """Seconds for which this process is certain to lead; 0 when it does not."""
        return max(0.0, self.deadline() - self._clock())

    def deadline(self) -> float:
        """When, on this object's clock, leadership ends unless renewed; minus infinity when it does not lead."""
        with self._lock:
            return self._election.deadline

    @property
    def holder(self) -> str:
        """Who leads, as last seen; empty when nobody does or nothing is known."""
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
            except Exception as error:  # such as an answer that is no Lease: without this thread nobody would ever lead
                log.error("Lease %s/%s: %s: %s", self._namespace, self._name, type(error).__name__, error)
            self._stopping.wait(pause)

    def _attempt(self) -> bool:
        """Take or renew the Lease where the election allows it. Returns whether that was done."""
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
        """Take or renew the Lease as it was last seen. False if it has changed since: another process wrote it, or this
        one and the answer was lost."""
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
                self._election.observe(record, self._clock())  # for release, which gives up exactly this version
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
