"""The control plane starts and ends completely, and reports why it cannot start."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.testbed import build
from tests.testbed.controlplane import ControlPlane, ControlPlaneError

STARTER = """
import sys, time
from pathlib import Path
from tests.testbed.controlplane import ControlPlane

plane = ControlPlane.start(Path(sys.argv[1]))
print(plane.supervisor.pid, *plane.supervisor.pids.values(), flush=True)
time.sleep(600)
"""


@pytest.mark.programs
def test_every_program_of_it_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path / "plane")],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert starter.stdout is not None
    processes = [psutil.Process(int(pid)) for pid in starter.stdout.readline().split()]
    names = {Path(process.cmdline()[0]).name for process in processes[1:]}
    assert names == {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"}
    starter.kill()
    starter.communicate()
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert alive == []


@pytest.mark.programs
def test_a_control_plane_does_not_start_among_files_of_others(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(ControlPlaneError, match="is not empty"):
        ControlPlane.start(tmp_path)


@pytest.mark.programs
def test_a_program_that_dies_is_named_with_the_end_of_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "kube-apiserver"
    broken.write_text("#!/bin/sh\necho the moon is full\nexit 7\n")
    broken.chmod(0o755)
    binaries = dataclasses.replace(build.locate(), kube_apiserver=broken)
    monkeypatch.setattr(build, "locate", lambda: binaries)
    with pytest.raises(ControlPlaneError) as raised:
        ControlPlane.start(tmp_path / "plane")
    assert "kube-apiserver ended with code 7" in str(raised.value)
    assert "the moon is full" in str(raised.value)


def test_a_failed_command_tells_what_kubectl_said(control_plane: ControlPlane) -> None:
    with pytest.raises(ControlPlaneError, match=r'kubectl get pod ghost: .*pods "ghost" not found'):
        control_plane.kubectl("get", "pod", "ghost")


def test_the_programs_of_the_control_plane_are_of_one_version(control_plane: ControlPlane) -> None:
    version = json.loads(control_plane.kubectl("version", "--output=json"))
    assert version["serverVersion"]["gitVersion"] == version["clientVersion"]["gitVersion"]


def test_helm_reaches_it_and_renders_for_its_version_without_it(control_plane: ControlPlane, tmp_path: Path) -> None:
    """Helm 4 renders for the Kubernetes version of its own go.mod."""
    assert json.loads(control_plane.helm("list", "--filter=^probe$", "--output=json")) == []
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("{apiVersion: v2, name: probe, version: 1.0.0}")
    (tmp_path / "templates/probe.yaml").write_text("minor: {{ .Capabilities.KubeVersion.Minor | quote }}")
    minor = json.loads(control_plane.kubectl("version", "--output=json"))["serverVersion"]["minor"]
    if build.helm_module() != "go-helm-3":
        minor = build.pinned(build.helm_module(), "k8s.io/client-go").split(".")[1]
    assert f'minor: "{minor}"' in control_plane.helm("template", "probe", str(tmp_path))


def test_a_service_account_may_only_what_it_was_granted(control_plane: ControlPlane) -> None:
    control_plane.kubectl("create", "namespace", "visitors")
    control_plane.kubectl("create", "serviceaccount", "visitor", "--namespace=visitors")
    kubeconfig = control_plane.service_account_kubeconfig("visitors", "visitor")
    who = control_plane.kubectl(f"--kubeconfig={kubeconfig}", "auth", "whoami", "--output=jsonpath={.status.userInfo}")
    assert json.loads(who)["username"] == "system:serviceaccount:visitors:visitor"
    with pytest.raises(ControlPlaneError, match="forbidden"):
        control_plane.kubectl(f"--kubeconfig={kubeconfig}", "get", "nodes")


def test_a_service_account_may_be_sent_through_another_address(control_plane: ControlPlane) -> None:
    kubeconfig = control_plane.service_account_kubeconfig("default", "default", through_url="https://127.0.0.1:1")
    assert json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
