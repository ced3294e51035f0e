"""A small operator that announces the members of one job over HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.testbed import ports

RUN = 3
_HELD_SECONDS = 20.0
_NUMBERS = {
    "step", "totalSteps", "fraction", "throughput", "batch", "stepSeconds", "checkpointSeconds", "computeSeconds",
    "syncSeconds", "loadSeconds", "resizeSeconds",
}  # fmt: skip
_WHOLE = {"run", "index", "generation", "waitGeneration"}


class Announcer:
    """What the progress endpoint says of one job that is resized in place, and what it hears.

    It refuses a field that the protocol does not have, as a real one would not, so that a misspelt one is found.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reports: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self.stopping = False
        self.members: dict[str, Any] | None = None
        self._ports: dict[int, int] = {}
        self.changed = threading.Condition()
        announcer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = announcer.answer(self.path, self.headers.get("Authorization", ""), body)
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                return

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                return  # a process that is killed leaves its calls

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def port(self, index: int) -> int:
        """The port of that pod's processes, the same for each incarnation, as a pod's name is."""
        if index not in self._ports:
            self._ports[index] = ports.reserve("")
        return self._ports[index]

    def announce(self, indexes: Sequence[int]) -> int:
        """A new generation with these members; its number."""
        with self.changed:
            generation = 1 if self.members is None else self.members["generation"] + 1
            addresses = [f"127.0.0.1:{self.port(index)}" for index in indexes]
            members = {"generation": generation, "indexes": list(indexes), "addresses": addresses}
            self.members = {**members, "key": "of-the-run"}
            self.changed.notify_all()
        return int(generation)

    def stop(self) -> None:
        """The run is to stop; the next answers say so."""
        with self.changed:
            self.stopping = True
            self.changed.notify_all()

    def answer(self, path: str, authorization: str, body: Mapping[str, Any]) -> tuple[int, object]:
        """Of POST /v1/progress."""
        complaint = self._complaint(path, authorization, body)
        with self.changed:
            if complaint:
                self.refused.append(complaint)
                return 400, {"error": {"code": "Invalid", "message": complaint}}
            self.reports.append({**body, "at": time.monotonic()})
            self.changed.notify_all()
            if "waitGeneration" in body:
                known = body["waitGeneration"]
                self.changed.wait_for(lambda: self.stopping or (self.members or {}).get("generation", known) != known,
                                      _HELD_SECONDS)  # fmt: skip
            pods = len(self.members["indexes"]) if self.members else 1
            allocation = {"run": RUN, "gpus": pods, "pods": pods, "gpusPerPod": 1}
            answer = {"allocation": allocation, "stopping": self.stopping, "againSeconds": 1}
            return 200, answer | ({} if self.members is None else {"members": self.members})

    def _complaint(self, path: str, authorization: str, body: Mapping[str, Any]) -> str:
        if path != "/v1/progress" or not authorization.startswith("Bearer pod-"):
            return f"{path} with {authorization!r}"
        for name, value in body.items():
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
            if not (whole if name in _WHOLE else name in _NUMBERS and isinstance(value, int | float)):
                return f"{name} {value!r}"
        return "" if body.get("run") == RUN else f"run {body.get('run')}"

    def until(self, what: str, state: Callable[[], Any], seconds: float = 120.0) -> Any:
        """Waits until a report, or what is in the folder, makes the state true; its value."""
        deadline = time.monotonic() + seconds
        while not (value := state()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}; last reports {self.reports[-5:]}")
            with self.changed:
                self.changed.wait(0.02)
        return value

    def formed(self, generation: int, index: int = 0, seconds: float = 120.0) -> dict[str, Any]:
        """The first report of that generation by that index."""

        def first() -> dict[str, Any] | None:
            with self.changed:
                return next(
                    (r for r in self.reports if r["index"] == index and r.get("generation") == generation), None
                )

        found: dict[str, Any] = self.until(f"generation {generation} of index {index}", first, seconds)
        return found
