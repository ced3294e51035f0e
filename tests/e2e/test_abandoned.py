"""What a process with real nodes leaves on this machine when it is killed, and when it closes them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.e2e.support import REAL_NODES
from tests.testbed import cgroups
from tests.testbed.build import ROOT
from tests.testbed.node_host import BRIDGE, NodeHost, links

pytestmark = REAL_NODES
KILLED = """
import os, signal, subprocess
from tests.testbed import cgroups
from tests.testbed.node_host import NodeHost
host = NodeHost.open()
name = cgroups.name_of(1)
cgroups.create(name)
script = f"echo $$ > {cgroups.tracking(name)}/cgroup.procs && echo in it && exec sleep 600"
child = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
child.stdout.readline()
print(child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.usefixtures("no_cluster")
def test_what_a_killed_process_left_is_cleared_by_the_next_one() -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = psutil.Process(int(done.stdout))
    assert left.is_running()
    assert BRIDGE in links()
    forwarding = Path("/proc/sys/net/ipv4/ip_forward").read_text()
    with NodeHost.open():
        assert not left.is_running() or left.status() == psutil.STATUS_ZOMBIE
        assert cgroups.existing() == []
    assert BRIDGE not in links()
    assert Path("/proc/sys/net/ipv4/ip_forward").read_text() == forwarding
    assert not os.path.exists("/var/lib/charterer-nodes")
