"""The kernel's part in the cluster: the TrainingJob that its GPU comes from, read and asked for over HTTPS.

With the token of the pod's service account, as Kubernetes mounts it. Its Role needs get and patch of trainingjobs.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_GROUP = "charterer.dev"
_SECONDS = 10.0
_TRIES = 4
_BUSY = frozenset({429, 500, 502, 503, 504})
_LONGEST_ANSWER = 16 * 1024 * 1024


class ClusterError(Exception):
    """The API server refused or did not answer; the message says what to do."""


@dataclass(frozen=True)
class JobView:
    """What a TrainingJob says about its GPU. ``hourly``: dollars; ``start_seconds``: as measured before; None unknown.

    ``run``: number of the run that has GPUs now, None while there is none. ``ended``: why no run will ever come.
    """

    asks: int
    answered: int
    run: int | None
    state: str
    why: str
    hourly: float | None
    start_seconds: float | None
    ended: str | None

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> JobView:
        """From the object as the API server has it."""
        status: Mapping[str, Any] = raw.get("status") or {}
        interactive: Mapping[str, Any] = status.get("interactive") or {}
        allocation: Mapping[str, Any] = status.get("allocation") or {}
        chosen = [option for option in status.get("options") or [] if option.get("verdict") == "chosen"]
        option: Mapping[str, Any] = allocation.get("option") or (chosen[0] if chosen else {})
        conditions = {each["type"]: each for each in status.get("conditions") or []}
        why = str(status.get("why") or "")
        said = [
            each.get("message") for each in conditions.values() if each.get("reason") == why and each.get("message")
        ]
        return cls(
            asks=int((raw["spec"].get("interactive") or {}).get("asks") or 0),
            answered=int(interactive.get("answered") or 0),
            run=allocation.get("run"),
            state=str(status.get("state") or ""),
            why=said[0] if said else why,
            hourly=None if option.get("hourly") is None else float(option["hourly"]),
            start_seconds=interactive.get("startSeconds"),
            ended=_end(status, conditions),
        )


def _end(status: Mapping[str, Any], conditions: Mapping[str, Mapping[str, Any]]) -> str | None:
    if finish := status.get("finish"):
        return f"it is {finish['kind']}: {finish.get('message') or finish.get('reason')}"
    admitted = conditions.get("Admitted") or {}
    if admitted.get("status") == "False":
        return f"it is not admitted: {admitted.get('message') or admitted.get('reason')}"
    return None


class Cluster:
    """Calls to the API server for one TrainingJob; each may take some seconds, so call them in a thread."""

    def __init__(self, server: str, folder: Path, namespace: str, job: str) -> None:
        self._server = server
        self._folder = folder
        self.namespace = namespace
        self.job = job

    @classmethod
    def of_pod(cls, environ: Mapping[str, str] = os.environ) -> Cluster:
        """From the pod's environment: CHARTERER_JOB, and its service account. ClusterError where something is missing.

        CHARTERER_NAMESPACE is that of the job, where it is not the pod's.
        """
        job, host = environ.get("CHARTERER_JOB"), environ.get("KUBERNETES_SERVICE_HOST")
        folder = Path(environ.get("CHARTERER_SERVICE_ACCOUNT") or ACCOUNT_FOLDER)
        if not job:
            raise ClusterError("no GPU can be asked for: set CHARTERER_JOB to the name of a TrainingJob")
        if not host or not (folder / "token").exists():
            raise ClusterError(f"no GPU can be asked for: this is no pod with a service account (no {folder}/token)")
        port = environ.get("KUBERNETES_SERVICE_PORT", "443")
        namespace = environ.get("CHARTERER_NAMESPACE") or (folder / "namespace").read_text().strip()
        return cls(f"{host}:{port}", folder, namespace, job)

    def view(self) -> JobView:
        """The job as it is now."""
        return JobView.of(self._call("GET"))

    def ask(self) -> int:
        """Ask for a GPU; the number of this ask."""
        return self._write(lambda view: max(view.asks, view.answered) + 1)

    def withdraw(self) -> None:
        """Take back what was asked for and is not answered. A GPU that is there already is then given back at once."""
        self._write(lambda view: view.answered)

    def _write(self, asks: Callable[[JobView], int]) -> int:
        """The write fails where the job has changed since it was read, and is made again."""
        while True:
            raw = self._call("GET")
            if "interactive" not in raw["spec"]:
                raise ClusterError(
                    f"TrainingJob {self.namespace}/{self.job} has no spec.interactive: create it with one"
                )
            view = JobView.of(raw)
            if view.ended is not None:
                raise ClusterError(f"TrainingJob {self.namespace}/{self.job} gets no GPU any more: {view.ended}")
            number = asks(view)
            version = raw["metadata"]["resourceVersion"]
            body = {"metadata": {"resourceVersion": version}, "spec": {"interactive": {"asks": number}}}
            try:
                self._call("PATCH", body)
            except _ConflictError:
                continue
            return number

    def _call(self, method: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        path = f"/apis/{_GROUP}/v1alpha1/namespaces/{self.namespace}/trainingjobs/{self.job}"
        problem = ""
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(0.5 * 2.0**attempt)
            try:
                status, content = self._once(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                problem = f"{type(error).__name__}: {error}"
                continue
            if status < 300:
                decoded: dict[str, Any] = json.loads(content)
                return decoded
            problem = self._refusal(status, content)
            if status == 409:
                raise _ConflictError(problem)
            if status not in _BUSY:
                raise ClusterError(problem)
        raise ClusterError(f"the Kubernetes API server does not answer: {problem}")

    def _once(self, method: str, path: str, body: Mapping[str, object] | None) -> tuple[int, bytes]:
        token = (self._folder / "token").read_text().strip()  # Kubernetes renews it there
        context = ssl.create_default_context(cafile=str(self._folder / "ca.crt"))
        connection = http.client.HTTPSConnection(self._server, timeout=_SECONDS, context=context)
        try:
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read(_LONGEST_ANSWER)
        finally:
            connection.close()

    def _refusal(self, status: int, content: bytes) -> str:
        try:
            said = str(json.loads(content)["message"])
        except (ValueError, KeyError, TypeError):
            said = f"HTTP {status}"
        if status == 403:
            return (
                f"{said}. The notebook's service account needs a Role in namespace {self.namespace} with the verbs get "
                "and patch on trainingjobs of charterer.dev, and a RoleBinding to it"
            )
        if status == 404:
            return f"{said}. Create TrainingJob {self.job} with spec.interactive in namespace {self.namespace}"
        if status == 401:
            return f"{said}. The token in {self._folder} is not accepted"
        return said


class _ConflictError(ClusterError):
    """The object changed in between."""
