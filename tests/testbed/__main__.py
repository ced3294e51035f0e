"""``python -m tests.testbed up``: a control plane in the foreground, until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.testbed.build import MissingProgramsError
from tests.testbed.controlplane import ControlPlane, ControlPlaneError


def main() -> int:
    """Print how to reach the control plane, then wait for SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tests.testbed", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start a control plane and keep it until Ctrl-C")
    up.add_argument("--directory", type=Path, help="an empty folder for its files and logs (default: a temporary one)")
    directory: Path | None = parser.parse_args().directory
    started = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="charterer-testbed-") as temporary:
        try:
            with ControlPlane.start(directory or Path(temporary)) as plane:
                print(f"ready in {time.monotonic() - started:.1f} s; its files are in {plane.directory}")
                print(f"export KUBECONFIG={plane.kubeconfig}")
                folders = dict.fromkeys((plane.binaries.kubectl.parent, plane.binaries.helm.parent))
                print(f"export PATH={os.pathsep.join(map(str, folders))}{os.pathsep}$PATH  # kubectl, helm")
                print("Ctrl-C ends it", flush=True)
                signal.pause()
        except KeyboardInterrupt:
            return 0
        except (MissingProgramsError, ControlPlaneError) as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
