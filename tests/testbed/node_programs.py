"""What real nodes run: kubelet, kube-proxy and pause, which are built, and containerd, runc and CNI plugins of Debian.

``make testbed`` builds (as root on Linux; nobody else can run them), ``make nodes`` installs the packages as well.
Where that cannot be done, ``missing`` says why and what to do, and the tests that want such nodes are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import build
from tests.testbed.build import BuildError, Target

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


def targets() -> tuple[Target, ...]:
    """What is built: after the control plane, of which they share most packages, it takes a minute."""
    version = build.kubernetes_version()
    return (
        Target("kubelet", build.kubernetes_module(), "k8s.io/kubernetes/cmd/kubelet", ("kubelet",), version, 40),
        Target(
            "kube-proxy", build.kubernetes_module(), "k8s.io/kubernetes/cmd/kube-proxy", ("kube-proxy",), version, 15
        ),
        Target("pause", "go-pause", ".", ("pause",), (), 2),
    )


def locate() -> NodePrograms:
    """The built programs; BuildError where ``missing`` gives a reason."""
    if reason := missing():
        raise BuildError(reason)
    return NodePrograms(*(path for target in targets() if (path := _find(target.name))))


def missing() -> str | None:
    """Why this machine cannot have real nodes and what to do, in one line; None where it can."""
    if reason := _unsuitable():
        return f"no real nodes here: {reason}"
    if absent := _absent():
        return f"no real nodes here: {', '.join(absent)} not found: run `make nodes` as root"
    return None


def _unsuitable() -> str | None:
    if sys.platform != "linux":
        return "they need Linux"
    if os.geteuid() != 0:
        return "they need root: repeat as root, for instance in a container or a virtual machine"
    return None


def _absent() -> list[str]:
    return [*(target.name for target in _lacking()), *_absent_packages()]


def _lacking() -> list[Target]:
    return [target for target in targets() if _find(target.name) is None]


def _absent_packages() -> list[str]:
    plugins = [f"CNI plugin {name}" for name in ("bridge", "host-local", "loopback") if not (CNI / name).exists()]
    return [*(name for name in _COMMANDS if shutil.which(name) is None), *plugins]


def _find(program: str) -> Path | None:
    return build.find(program, build.directory(targets()))


def _install() -> None:
    """Debian's packages; prints why not where that fails: the tests are then skipped."""
    if not _absent_packages():
        return
    if shutil.which("apt-get") is None:
        print(f"nodes: no apt-get: install {', '.join(PACKAGES)} yourself; until then tests on real nodes are skipped")
        return
    print(f"nodes: installing {', '.join(PACKAGES)} (150 MB)", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "--quiet=2", "--yes", "--no-install-recommends", *PACKAGES]
    for command in (["apt-get", "update", "--quiet=2"], install):
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        print(f"nodes: {' '.join(install)} failed, so tests on real nodes are skipped: {done.stderr.strip()[-500:]}")


def main() -> int:
    """``build`` builds; ``install`` installs Debian's packages. Neither does anything where nodes are impossible."""
    if reason := _unsuitable():
        if sys.argv[1] == "install":
            print(f"nodes: nothing to install: {reason}")
        return 0
    if sys.argv[1] == "install":
        _install()
        return 0
    try:
        build.build_into(build.directory(targets()), _lacking)
    except BuildError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
