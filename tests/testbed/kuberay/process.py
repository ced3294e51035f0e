"""A real KubeRay on the testbed's control plane: an unchanged release with its own rights."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.testbed import ports, released
from tests.testbed.controlplane import ControlPlane
from tests.testbed.kuberay.dashboard import Dashboard
from tests.testbed.kuberay.program import KubeRayFiles
from tests.testbed.supervise import Supervisor

_NAME, _ACCOUNT = "kuberay", ("default", "kuberay-operator")
_POLL_SECONDS = 0.1


class KubeRayProcess:
    """One KubeRay, which acts from ``restart`` to ``kill``, and the dashboard server that it calls."""

    def __init__(self, plane: ControlPlane, files: KubeRayFiles, directory: Path) -> None:
        self._plane, self._files, self._directory = plane, files, directory
        self._supervisor = Supervisor()
        self._health, self._metrics = ports.reserve(), ports.reserve()
        self.dashboard = Dashboard()

    @classmethod
    def start(cls, plane: ControlPlane, files: KubeRayFiles, directory: Path) -> KubeRayProcess:
        """Apply the manifest, start KubeRay, and return once it acts."""
        directory.mkdir(parents=True, exist_ok=True)
        kuberay = cls(plane, files, directory)
        try:
            released.apply_manifest(plane, files.manifest, 0, b"")
            kuberay.restart()
        except BaseException:
            kuberay.stop()
            raise
        return kuberay

    def kill(self) -> None:
        """Send SIGKILL."""
        self._supervisor.kill(_NAME)

    def restart(self) -> None:
        """Start KubeRay (again), and return once it acts."""
        log = self._directory / "kuberay.log"
        flags = {
            "metrics-addr": f"127.0.0.1:{self._metrics}",
            "health-probe-bind-address": f"127.0.0.1:{self._health}",
            "enable-leader-election": "false",
        }
        environment = {
            "PATH": os.defpath,
            "KUBECONFIG": str(self._plane.service_account_kubeconfig(*_ACCOUNT)),
            "HOME": str(self._directory),
            "POD_NAMESPACE": _ACCOUNT[0],
            "HTTP_PROXY": f"http://127.0.0.1:{self.dashboard.port}",
        }
        argv = [str(self._files.program), *[f"--{name}={value}" for name, value in flags.items()]]
        self._supervisor.start(_NAME, argv, log=log, cwd=self._directory, env=environment)
        deadline = time.monotonic() + released.PATIENCE_SECONDS
        while not released.serves(self._health):
            if _NAME in self._supervisor.exited() or time.monotonic() > deadline:
                tail = log.read_text(errors="replace")[-4000:]
                raise released.ReleasedError(f"KubeRay does not get ready: {tail}")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Kill KubeRay for good."""
        self._supervisor.stop()
        self.dashboard.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
