"""The kernel's access to the cluster over HTTPS. The kernel reads the TrainingJob that provides its GPU, and requests
GPUs.

The calls use the token of the pod's service account, as Kubernetes mounts it. The account's Role needs get and patch of
trainingjobs. If each kernel makes its own job from a template, the Role also needs create and delete.
"""

from __future__ import annotations

import contextlib
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
_API = "charterer.dev/v1alpha1"
_NOT_WANTED = "NoGPUWanted"
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_SECONDS = 10.0
_TRIES = 4
_CONTENT_TYPES = {"PATCH": "application/merge-patch+json", "POST": "application/json"}
_BUSY = frozenset({429, 500, 502, 503, 504})
_LONGEST_ANSWER = 16 * 1024 * 1024


class ClusterError(Exception):
    """The API server refused a call or did not answer. The message says what to do."""


@dataclass(frozen=True)
class JobView:
    """The GPU of a TrainingJob. ``hourly`` (dollars) and ``start_seconds`` (as measured before) are None if unknown.

    ``run``: number of the run that has GPUs now, or None if no run has GPUs. ``why``: the operator's reason why no run
    has GPUs. It is empty until the operator has seen the request. ``ended``: why no run will ever come.
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
        """Read the object as the API server returns it."""
        status: Mapping[str, Any] = raw.get("status") or {}
        interactive: Mapping[str, Any] = status.get("interactive") or {}
        allocation: Mapping[str, Any] = status.get("allocation") or {}
        chosen = [option for option in status.get("options") or [] if option.get("verdict") == "chosen"]
        option: Mapping[str, Any] = allocation.get("option") or (chosen[0] if chosen else {})
        conditions = {each["type"]: each for each in status.get("conditions") or []}
        asks = int((raw["spec"].get("interactive") or {}).get("asks") or 0)
        answered = int(interactive.get("answered") or 0)
        return cls(
            asks=asks,
            answered=answered,
            run=allocation.get("run"),
            state=str(status.get("state") or ""),
            why=_why(str(status.get("why") or ""), conditions, wanted=asks > answered),
            hourly=None if option.get("hourly") is None else float(option["hourly"]),
            start_seconds=interactive.get("startSeconds"),
            ended=_end(status, conditions),
        )


def _why(code: str, conditions: Mapping[str, Mapping[str, Any]], wanted: bool) -> str:
    """The sentence of the condition with this reason. Empty if the reason is older than the request for a GPU."""
    if wanted and code == _NOT_WANTED:
        return ""
    said = [each["message"] for each in conditions.values() if each.get("reason") == code and each.get("message")]
    return str(said[0]) if said else code


def _end(status: Mapping[str, Any], conditions: Mapping[str, Mapping[str, Any]]) -> str | None:
    if finish := status.get("finish"):
        return f"it is {finish['kind']}: {finish.get('message') or finish.get('reason')}"
    admitted = conditions.get("Admitted") or {}
    if admitted.get("status") == "False":
        return f"it is not admitted: {admitted.get('message') or admitted.get('reason')}"
    return None


class Cluster:
    """Calls to the API server for one TrainingJob. Each call may take some seconds, so make it in a thread."""

    def __init__(
        self, server: str, folder: Path, namespace: str, job: str, template: str = "", pod: tuple[str, str] = ("", "")
    ) -> None:
        """``template``: the job from which the kernel's own job is made at the first request. Empty if somebody else
        made the job.

        ``pod``: name and uid of the kernel's pod, which becomes the owner of a job that the kernel makes. Empty if
        unknown.
        """
        self._server = server
        self._folder = folder
        self.namespace = namespace
        self.job = job
        self.template = template
        self._pod = pod

    @classmethod
    def of_pod(cls, environ: Mapping[str, str] = os.environ, own: str = "") -> Cluster:
        """Read the pod's environment and its service account. Raises ClusterError if something is missing.

        CHARTERER_JOB names the job. Otherwise CHARTERER_JOB_TEMPLATE names a job that is copied. The name of the copy
        is the template's name with ``own``. CHARTERER_NAMESPACE is the job's namespace if it differs from the pod's.
        """
        job, host = environ.get("CHARTERER_JOB"), environ.get("KUBERNETES_SERVICE_HOST")
        template = "" if job else environ.get("CHARTERER_JOB_TEMPLATE", "")
        folder = Path(environ.get("CHARTERER_SERVICE_ACCOUNT") or ACCOUNT_FOLDER)
        if template:
            job = f"{template}-{own}"
        if not job:
            raise ClusterError(
                "no GPU can be asked for: set CHARTERER_JOB to the name of a TrainingJob, or CHARTERER_JOB_TEMPLATE to "
                "one of which each kernel makes its own"
            )
        if not host or not (folder / "token").exists():
            raise ClusterError(f"no GPU can be asked for: this is no pod with a service account (no {folder}/token)")
        port = environ.get("KUBERNETES_SERVICE_PORT", "443")
        namespace = environ.get("CHARTERER_NAMESPACE") or (folder / "namespace").read_text().strip()
        pod = environ.get("CHARTERER_POD_NAME", ""), environ.get("CHARTERER_POD_UID", "")
        return cls(f"{host}:{port}", folder, namespace, job, template, pod)

    def view(self) -> JobView:
        """The job as it is now. Raises MissingJobError if it does not exist."""
        return JobView.of(self._call("GET", self.job))

    def ask(self) -> int:
        """Request a GPU and return the number of the request. If the job does not exist, it is made from the
        template.
        """
        try:
            return self._write(_next_ask)
        except MissingJobError:
            if not self.template:
                raise
        self._make()
        return self._write(_next_ask)

    def withdraw(self) -> None:
        """Withdraw a request that is not answered. If the request has got a GPU already, that GPU is released at
        once.
        """
        self._write(lambda view: view.answered)

    def delete(self) -> None:
        """Delete the job and its running pods."""
        with contextlib.suppress(MissingJobError):
            self._call("DELETE", self.job)

    def _make(self) -> None:
        """Create the job as a copy of the template."""
        template = self._call("GET", self.template)
        meta, (pod, uid) = template["metadata"], self._pod
        owners = [{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}] if pod and uid else []
        kept = {key: value for key, value in (meta.get("annotations") or {}).items() if key != _APPLIED}
        told = {key: value for key, value in (template["spec"].get("interactive") or {}).items() if key != "asks"}
        labels = meta.get("labels") or {}
        named = {"name": self.job, "labels": labels, "annotations": kept, "ownerReferences": owners}
        spec = {**template["spec"], "interactive": told}
        with contextlib.suppress(_ConflictError):  # an earlier call, whose answer was lost, may have created the job
            self._call("POST", "", {"apiVersion": _API, "kind": "TrainingJob", "metadata": named, "spec": spec})

    def _write(self, asks: Callable[[JobView], int]) -> int:
        """Write the number of requests. If the job has changed since it was read, the write is repeated."""
        while True:
            raw = self._call("GET", self.job)
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
                self._call("PATCH", self.job, body)
            except _ConflictError:
                continue
            return number

    def _call(self, method: str, job: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Send a call about ``job``, or about the collection of the namespace's jobs if ``job`` is empty."""
        path = f"/apis/{_API}/namespaces/{self.namespace}/trainingjobs" + (f"/{job}" if job else "")
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
            problem = self._refusal(status, content, job)
            if status == 409:
                raise _ConflictError(problem)
            if status == 404:
                raise MissingJobError(problem)
            if status not in _BUSY:
                raise ClusterError(problem)
        raise ClusterError(f"the Kubernetes API server does not answer: {problem}")

    def _once(self, method: str, path: str, body: Mapping[str, object] | None) -> tuple[int, bytes]:
        token = (self._folder / "token").read_text().strip()  # Kubernetes renews the token in this file
        context = ssl.create_default_context(cafile=str(self._folder / "ca.crt"))
        connection = http.client.HTTPSConnection(self._server, timeout=_SECONDS, context=context)
        try:
            headers = {"Authorization": f"Bearer {token}"}
            if body is not None:
                headers["Content-Type"] = _CONTENT_TYPES[method]
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read(_LONGEST_ANSWER)
        finally:
            connection.close()

    def _refusal(self, status: int, content: bytes, job: str) -> str:
        try:
            said = str(json.loads(content)["message"])
        except (ValueError, KeyError, TypeError):
            said = f"HTTP {status}"
        if status == 403:
            verbs, pods = "get and patch", ""
            if self.template:
                verbs, pods = "get, create, patch and delete", ", create on pods"
            return (
                f"{said}. The notebook's service account needs a Role in namespace {self.namespace} with the verbs "
                f"{verbs} on trainingjobs of charterer.dev{pods}, and a RoleBinding to it"
            )
        if status == 404:
            return f"{said}. Create TrainingJob {job} with spec.interactive in namespace {self.namespace}"
        if status == 401:
            return f"{said}. The token in {self._folder} is not accepted"
        return said


def _next_ask(view: JobView) -> int:
    return max(view.asks, view.answered) + 1


class MissingJobError(ClusterError):
    """The TrainingJob does not exist."""


class _ConflictError(ClusterError):
    """The object has changed meanwhile, or another object of its name exists."""
