"""What real nodes run: kubelet, kube-proxy and pause, which are made, and containerd, runc and CNI plugins of Debian.

``make nodes`` makes and installs them, as root on Linux; nobody else can run them. Where that cannot be done,
``missing`` says why and what to do, and the tests that want such nodes are skipped.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import build, debian
from tests.testbed.build import Target
from tests.testbed.cache import BuildError, Say, Thing

PACKAGES = ("containerd", "runc", "containernetworking-plugins", "iproute2", "iptables")
CNI = Path("/usr/lib/cni")
_COMMANDS = ("containerd", "ctr", "runc", "ip", "iptables", "nsenter", "unshare")


@dataclass(frozen=True, slots=True)
class NodePrograms:
    """Where the built ones lie."""

    kubelet: Path
    kube_proxy: Path
    pause: Path
    """The process of a pod's sandbox."""


def _targets() -> tuple[Target, ...]:
    """What is made: after the control plane, of which they share most packages, it takes a minute."""
    kubernetes, variables = build.kubernetes_module(), build.kubernetes_version()
    (_, version), *_ = variables

    def of_kubernetes(name: str, seconds: int) -> Target:
        package = f"k8s.io/kubernetes/cmd/{name}"
        return Target(name, kubernetes, package, (name,), variables, seconds, versions=(version,))

    return (
        of_kubernetes("kubelet", 40),
        of_kubernetes("kube-proxy", 15),
        Target("pause", "go-pause", ".", ("pause",), (), 2),
    )


def locate() -> NodePrograms:
    """The built programs; BuildError where ``missing`` gives a reason."""
    if reason := missing():
        raise BuildError(reason)
    return NodePrograms(*(path for target in _targets() if (path := _find(target))))


def missing() -> str | None:
    """Why this machine cannot have real nodes and what to do, in one line; None where it can."""
    if reason := unsuitable():
        return reason
    if absent := [*(target.name for target in _targets() if _find(target) is None), *_absent_packages()]:
        return f"no real nodes here: {', '.join(absent)} not found: run `make nodes` as root"
    return None


def unsuitable() -> str | None:
    """Why no installation helps, in one line; None where this machine can have real nodes."""
    if sys.platform != "linux":
        return "no real nodes here: they need Linux"
    if os.geteuid() != 0:
        return "no real nodes here: they need root: repeat as root, for instance in a container or a virtual machine"
    return None


def lacking(say: Say) -> list[Thing]:
    """What must be made and installed."""
    packages = debian.packages("nodes' packages", PACKAGES, lambda: not _absent_packages(), 20)
    return [*([packages] if _absent_packages() else []), *build.lacking(_targets(), say)]


def _absent_packages() -> list[str]:
    plugins = [f"CNI plugin {name}" for name in ("bridge", "host-local", "loopback") if not (CNI / name).exists()]
    return [*(name for name in _COMMANDS if shutil.which(name) is None), *plugins]


def _find(target: Target) -> Path | None:
    return build.find(target.name, target)
