"""A real Kueue on the testbed's control plane: an unchanged release with its own rights and webhooks."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.testbed import credentials, ports, released
from tests.testbed.controlplane import ControlPlane
from tests.testbed.kueue.program import KueueFiles
from tests.testbed.supervise import Supervisor

_NAME, _NAMESPACE = "kueue", "kueue-system"
_WEBHOOKS: Final = "kueue-webhook-service"
_SECRET: Final = "kueue-webhook-server-cert"
_FRAMEWORKS: Final = (
    "batch/job",
    "jobset.x-k8s.io/jobset",
    "trainer.kubeflow.org/trainjob",
    "ray.io/rayjob",
    "ray.io/raycluster",
    "pod",
)
"""Frameworks of Kueue's default configuration whose kinds the testbed may have."""
_POLL_SECONDS = 0.05


class KueueProcess:
    """One Kueue. It acts from ``restart`` to ``kill``.

    After ``kill``, its webhooks refuse the objects that they cover.
    """

    def __init__(self, plane: ControlPlane, files: KueueFiles, directory: Path, config: Mapping[str, Any]) -> None:
        self._plane, self._files, self._directory, self._config = plane, files, directory, config
        self._supervisor = Supervisor()
        self._port, self._health = ports.reserve(), ports.reserve()
        self._paths: list[str] = []

    @classmethod
    def start(cls, plane: ControlPlane, files: KueueFiles, directory: Path, **config: Any) -> KueueProcess:
        """Apply the manifest, start Kueue, and return once it acts. ``config`` has more fields of its configuration."""
        kueue = cls(plane, files, directory, config)
        try:
            kueue._install()
            kueue.restart()
        except BaseException:
            kueue.stop()
            raise
        return kueue

    def kill(self) -> None:
        """Send SIGKILL."""
        self._supervisor.kill(_NAME)

    def restart(self) -> None:
        """Start Kueue (again), and return once it acts."""
        account = self._plane.service_account_kubeconfig(_NAMESPACE, "kueue-controller-manager")
        environment = {"PATH": os.defpath, "KUBECONFIG": str(account), "POD_NAMESPACE": _NAMESPACE}
        self._supervisor.start(
            _NAME,
            [str(self._files.program), f"--config={self._configuration()}"],
            log=self._log,
            cwd=self._directory,
            env=environment | {"TMPDIR": str(self._directory)},
        )
        deadline = time.monotonic() + released.PATIENCE_SECONDS
        while not (released.serves(self._health) and all(released.knows(self._port, path) for path in self._paths)):
            if _NAME in self._supervisor.exited() or time.monotonic() > deadline:
                tail = self._log.read_text(errors="replace")[-4000:]
                raise released.ReleasedError(f"Kueue does not get ready: {tail}")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Kill Kueue for good and delete its webhooks, which would otherwise refuse all objects."""
        self._supervisor.stop()
        for kind in ("mutating", "validating"):
            name = f"kueue-{kind}-webhook-configuration"
            self._plane.kubectl("delete", f"{kind}webhookconfiguration", name, "--ignore-not-found")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def _log(self) -> Path:
        return self._directory / "kueue.log"

    def _install(self) -> None:
        folder = self._directory / "certificates"
        folder.mkdir(parents=True)
        files = {name: folder / name for name in ("ca.crt", "ca.key", "tls.crt", "tls.key")}
        # Kueue makes its own certificates unless it finds valid ones for these names, and its own would not cover
        # loopback.
        credentials.write_serving_certificate(
            files["ca.crt"],
            files["tls.crt"],
            files["tls.key"],
            names=("kueue-ca", f"{_WEBHOOKS}.{_NAMESPACE}.svc"),
            ca_key_file=files["ca.key"],
        )
        authority = files["ca.crt"].read_bytes()
        self._paths = released.apply_manifest(self._plane, self._files.manifest, self._port, authority)
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": _SECRET, "namespace": _NAMESPACE},
            "stringData": {name: file.read_text() for name, file in files.items()},
        }
        self._plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=json.dumps(secret))

    def _configuration(self) -> Path:
        configuration = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": _NAMESPACE,
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": self._port, "certDir": str(self._directory / "certificates")},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {
                "enable": True,
                "webhookServiceName": _WEBHOOKS,
                "webhookSecretName": _SECRET,
            },
            "clientConnection": {"qps": 300, "burst": 500},
            "integrations": {"frameworks": list(_FRAMEWORKS)},
            "featureGates": {"VisibilityOnDemand": False},
            **self._config,
        }
        file = self._directory / "configuration.yaml"
        file.write_text(json.dumps(configuration))
        return file
