"""Renewals of a Lease whose answers are refused or lost: by which requests the holder goes on."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from charterer.cluster import credentials
from charterer.cluster.lease import Lease, LeaseTimes
from tests.patience import PATIENCE
from tests.unit.cluster.identities import kubeconfig

TIMES = LeaseTimes(duration=60.0, renew=0.01, retry=0.01, renew_deadline=30.0)


class Scripted(http.server.BaseHTTPRequestHandler):
    """An API server with one Lease. ``fates`` are those of the first requests: ok, lost (done without an answer), 503,
    empty (as a proxy may answer); the renewals that follow are taken. ``log``: each request's method and status."""

    protocol_version = "HTTP/1.1"
    url: str
    fates: list[str]
    lease: dict[str, Any]
    log: list[str]
    done: threading.Event

    def do_GET(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
        fate = self.fates.pop(0) if self.fates else "ok"
        status, answer = {"503": (503, {}), "empty": (200, {})}.get(fate) or self._carried_out(body)
        if not self.done.is_set():
            self.log.append(f"{self.command} {fate if fate in ('lost', 'empty') else status}")
        if not self.fates and fate not in ("lost", "empty") and status == 200 and self.command == "PUT":
            self.done.set()
        if fate == "lost":
            self.close_connection = True
            return
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_PUT = do_GET

    def _carried_out(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        version = self.lease["metadata"]["resourceVersion"]
        if self.command == "PUT":
            if body["metadata"]["resourceVersion"] != version:
                return 409, {"kind": "Status", "reason": "Conflict"}
            self.lease.update(body, metadata={**body["metadata"], "resourceVersion": str(int(version) + 1)})
        return 200, self.lease

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@contextmanager
def scripted(fates: list[str]) -> Iterator[type[Scripted]]:
    """An API server whose first requests have these fates; its ``url`` is that of the class."""
    lease = {"metadata": {"name": "charterer", "resourceVersion": "1"}, "spec": {"holderIdentity": ""}}
    attributes = {"fates": list(fates), "lease": lease, "log": [], "done": threading.Event()}
    handler = cast("type[Scripted]", type("Handler", (Scripted,), attributes))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        handler.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield handler
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("fates", "expected"),
    [
        (["lost"], ["PUT lost", "PUT 409", "GET 200", "PUT 200"]),
        (["lost", "ok", "503"], ["PUT lost", "PUT 409", "GET 503", "GET 200", "PUT 200"]),
        (["503", "503"], ["PUT 503", "PUT 503", "PUT 200"]),
        (["empty"], ["PUT empty", "PUT 200"]),
    ],
)
def test_after_a_lost_answer_the_lease_is_looked_at_once_and_renewed(
    tmp_path: Path, fates: list[str], expected: list[str]
) -> None:
    with scripted(["ok", "ok", *fates]) as api:
        access = credentials.load(kubeconfig(tmp_path / "config", cluster={"server": api.url}))
        lost: list[str] = []
        lease = Lease(
            access,
            "charterer",
            "ns",
            "charterer-0",
            on_gained=lambda: None,
            on_lost=lost.append,
            annotations={"said": "by the holder"},
            times=TIMES,
        )
        lease.start()
        assert api.done.wait(PATIENCE)
        lease.release()
        assert api.log == ["GET 200", "PUT 200", *expected]
        assert api.lease["metadata"]["annotations"] == {"said": "by the holder"}
        assert lost == []
