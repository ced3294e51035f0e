"""Programs of real nodes: kubelet, kube-proxy and pause (built), and containerd, runc and CNI plugins (Debian's).

``make nodes`` builds and installs them. Only root on Linux can run them. If they cannot run, ``missing`` gives reason
and remedy, and tests of real nodes are skipped.
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
    """Paths of the built programs."""

    kubelet: Path
    kube_proxy: Path
    pause: Path
    """The process of a pod's sandbox."""


def _targets() -> tuple[Target, ...]:
    """Return the build targets.

    After a build of the control plane, with most packages in common, they take a minute.
    """
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
    """Return the built programs. Raises BuildError with the reason of ``missing``."""
    if reason := missing():
        raise BuildError(reason)
    return NodePrograms(*(path for target in _targets() if (path := _find(target))))


def missing() -> str | None:
    """Return one line that says why this machine cannot run real nodes and what to do, None if it can."""
    if reason := unsuitable():
        return reason
    if absent := [*(target.name for target in _targets() if _find(target) is None), *_absent_packages()]:
        return f"no real nodes here: {', '.join(absent)} not found: run `make nodes` as root"
    return None


def unsuitable() -> str | None:
    """Return one line that says why no installation would help, None if real nodes are possible."""
    if sys.platform != "linux":
        return "no real nodes here: they need Linux"
    if os.geteuid() != 0:
        return "no real nodes here: they need root: repeat as root, for instance in a container or a virtual machine"
    return None


def lacking(say: Say) -> list[Thing]:
    """Return the things that must be made and installed."""
    packages = debian.packages("nodes' packages", PACKAGES, lambda: not _absent_packages(), 20)
    return [*([packages] if _absent_packages() else []), *build.lacking(_targets(), say)]


def _absent_packages() -> list[str]:
    plugins = [f"CNI plugin {name}" for name in ("bridge", "host-local", "loopback") if not (CNI / name).exists()]
    return [*(name for name in _COMMANDS if shutil.which(name) is None), *plugins]


def _find(target: Target) -> Path | None:
    return build.find(target.name, target)
