"""The demo's cluster: the testbed's control plane, or kind. The demo deletes it at the end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Protocol

import yaml

from demo.programs import DemoError, Programs
from tests.testbed import build
from tests.testbed.controlplane import STAGES, ControlPlane

_KIND_NAME = "charterer-demo"
_CONTAINERS = ("docker", "podman", "nerdctl")
"""Container engines that kind can use. If several exist, KIND_EXPERIMENTAL_PROVIDER chooses one."""
_KIND_CONFIG = Path(__file__).resolve().parents[1] / "kind-config.yaml"


class Cluster(Protocol):
    """A cluster. A failed command raises an exception with the program's own message."""

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of an administrator."""

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        """Run kubectl and return its output."""

    def helm(self, *arguments: str) -> str:
        """Run helm and return its output."""

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Make a kubeconfig for this service account."""

    def stop(self) -> None:
        """Stop the cluster. May be repeated."""


def check(kind: str) -> None:
    """Raise DemoError if this machine lacks a program that the demo cannot build for this kind of cluster."""
    if kind == "kind" and (shutil.which("kind") is None or not any(map(shutil.which, _CONTAINERS))):
        wanted = ", ".join(_CONTAINERS)
        raise DemoError(f"--cluster kind needs kind and one of {wanted} on the PATH; --cluster testbed needs none")


def start(kind: str, directory: Path, programs: Programs) -> Cluster:
    """Start the testbed or a kind cluster with its files in ``directory``. DemoError names missing programs."""
    if kind == "kind":
        return KindCluster(directory, programs)
    try:
        return ControlPlane.start(directory)
    except build.MissingProgramsError as missing:
        raise DemoError(str(missing)) from missing


class KindCluster:
    """A cluster in a container. A kwok process manages the fake cloud's GPU nodes."""

    def __init__(self, directory: Path, programs: Programs) -> None:
        try:
            self._binaries = build.locate()
        except build.MissingProgramsError as missing:
            raise DemoError(str(missing)) from missing
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.kubeconfig = directory / "kubeconfig"
        try:
            self._kind("create", "cluster", "--config", str(_KIND_CONFIG))
            programs.start(
                "kwok",
                [
                    str(self._binaries.kwok),
                    f"--kubeconfig={self.kubeconfig}",
                    "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
                    *(f"--config={stage}" for stage in sorted(STAGES.glob("*.yaml"))),
                    "--node-lease-duration-seconds=40",
                ],
            )
        except BaseException:
            self.stop()
            raise

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        """Run kubectl and return its output."""
        return self._run(str(self._binaries.kubectl), *arguments, input=input)

    def helm(self, *arguments: str) -> str:
        """Run helm and return its output."""
        return self._run(str(self._binaries.helm), *arguments)

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Make a kubeconfig for this service account that is valid for a day."""
        token = self.kubectl("create", "token", name, "--namespace", namespace, "--duration", "24h").strip()
        config = yaml.safe_load(self.kubeconfig.read_text())
        config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
        path = self._directory / f"{namespace}-{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config, indent=2) + "\n")
        return path

    def stop(self) -> None:
        """Delete the cluster."""
        self._kind("delete", "cluster")

    def _kind(self, *arguments: str) -> None:
        self._run("kind", *arguments, "--name", _KIND_NAME, "--kubeconfig", str(self.kubeconfig))

    def _run(self, *command: str, input: str | None = None) -> str:
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(command, input=input, capture_output=True, text=True, env=environment)
        if done.returncode != 0:
            raise DemoError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout
