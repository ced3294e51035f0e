"""The real controllers of JobSets and TrainJobs as processes of this machine, with webhooks on loopback."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import yaml

from tests.testbed import credentials, ports, released, served
from tests.testbed.controlplane import ControlPlane
from tests.testbed.job_controllers import JobController
from tests.testbed.supervise import Supervisor

ELASTIC_GATE = "ElasticJobSet"
"""JobSet's alpha feature gate that allows changes of a JobSet's width."""
_POLL_SECONDS = 0.05
_CONFIGURATIONS = {"jobset": "config.jobset.x-k8s.io/v1alpha1", "trainer": "config.trainer.kubeflow.org/v1alpha1"}
_CERTIFICATES = {"jobset": "internalCertManagement", "trainer": "certManagement"}
"""The name of each controller's setting for certificates that it makes for its Service."""


class JobControllerError(Exception):
    """A controller did not start. The message has the end of its log."""


class JobControllerProcesses:
    """The controllers of JobSet and Kubeflow Trainer, which act on a control plane until ``stop``."""

    def __init__(self, plane: ControlPlane, controllers: Sequence[JobController], directory: Path) -> None:
        self._plane = plane
        self._controllers = {controller.name: controller for controller in controllers}
        self._directory = directory
        self._supervisor = Supervisor()
        self._ports = {name: (ports.reserve(), ports.reserve()) for name in self._controllers}
        self._paths: dict[str, Sequence[str]] = {}

    @classmethod
    def start(
        cls, plane: ControlPlane, controllers: Sequence[JobController], directory: Path, *, elastic: bool = False
    ) -> JobControllerProcesses:
        """Install CRDs and webhooks, start the controllers, and return once they act.

        ``elastic`` enables ELASTIC_GATE.
        """
        processes = cls(plane, controllers, directory)
        try:
            for name, controller in processes._controllers.items():
                processes._install(name, controller)
            for name in processes._controllers:
                processes._launch(name, elastic)
            for name in processes._controllers:
                processes._wait_until_ready(name)
        except BaseException:
            processes.stop()
            raise
        return processes

    def restart(self, name: str, *, elastic: bool = False) -> None:
        """Kill ``jobset`` or ``trainer`` by SIGKILL, start it again, and return once it acts."""
        self._supervisor.kill(name)
        self._launch(name, elastic)
        self._wait_until_ready(name)

    @contextmanager
    def halted(self, name: str) -> Iterator[None]:
        """Stop a controller by SIGSTOP inside the ``with`` block."""
        process = self._supervisor.pids[name]
        os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process, signal.SIGCONT)

    def stop(self) -> None:
        """Kill both controllers and delete their webhooks, which would otherwise refuse all objects."""
        self._supervisor.stop()
        for name in self._controllers:
            for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
                self._plane.kubectl("delete", kind, f"testbed-{name}", "--ignore-not-found")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _install(self, name: str, controller: JobController) -> None:
        served.install_definitions(self._plane, *controller.crds)
        folder = self._temporary(name) / "k8s-webhook-server" / "serving-certs"
        folder.mkdir(parents=True)
        authority = folder / "ca.crt"
        credentials.write_serving_certificate(authority, folder / "tls.crt", folder / "tls.key")
        made = yaml.safe_load_all(self._plane.kubectl("kustomize", str(controller.webhooks)))
        hooks = [document for document in made if document is not None and released.is_webhooks(document)]
        bundle = authority.read_bytes()
        on_loopback = [released.on_loopback(document, self._ports[name][0], bundle) for document in hooks]
        named = [document | {"metadata": {"name": f"testbed-{name}"}} for document in on_loopback]
        urls = [webhook["clientConfig"]["url"] for document in named for webhook in document["webhooks"]]
        self._paths[name] = [urlsplit(url).path for url in urls]
        self._plane.kubectl("apply", "-f", "-", input=json.dumps({"kind": "List", "apiVersion": "v1", "items": named}))

    def _temporary(self, name: str) -> Path:
        """Return a controller's TMPDIR, where controller-runtime reads webhook certificates.

        Trainer cannot configure it.
        """
        return self._directory / name

    def _launch(self, name: str, elastic: bool) -> None:
        webhooks, health = self._ports[name]
        configuration = {
            "apiVersion": _CONFIGURATIONS[name],
            "kind": "Configuration",
            "webhook": {"host": "127.0.0.1", "port": webhooks},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
            "metrics": {"bindAddress": "0"},
            "leaderElection": {"leaderElect": False},
            _CERTIFICATES[name]: {"enable": False},
            **({"featureGates": {ELASTIC_GATE: elastic}} if name == "jobset" else {}),
        }
        file = self._temporary(name) / "configuration.yaml"
        file.write_text(json.dumps(configuration))
        self._supervisor.start(
            name,
            [str(self._controllers[name].program), f"--config={file}"],
            log=self._log(name),
            cwd=self._temporary(name),
            env={
                "PATH": os.defpath,
                "KUBECONFIG": str(self._plane.kubeconfig),
                "TMPDIR": str(self._temporary(name)),
            },
        )

    def _wait_until_ready(self, name: str) -> None:
        deadline = time.monotonic() + released.PATIENCE_SECONDS
        while not (released.serves(self._ports[name][1]) and self._webhooks_answer(name)):
            if name in self._supervisor.exited() or time.monotonic() > deadline:
                tail = self._log(name).read_text(errors="replace")[-4000:]
                raise JobControllerError(f"{name} does not get ready: {tail}")
            time.sleep(_POLL_SECONDS)

    def _webhooks_answer(self, name: str) -> bool:
        """Return whether the server knows all webhook paths.

        Controllers report readiness before they register the paths.
        """
        return all(released.knows(self._ports[name][0], path) for path in self._paths[name])

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"
