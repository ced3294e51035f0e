"""``python -m charterer_trainer.jupyter install`` makes the kernel available to a Jupyter server of this
environment.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from jupyter_client.kernelspec import KernelSpecManager

NAME = "charterer-gpu"


def main() -> int:
    """Install the kernel's spec at the place that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m charterer_trainer.jupyter", description=__doc__)
    commands = parser.add_subparsers(required=True)
    install = commands.add_parser("install", help="write the kernel's spec")
    where = install.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for this user alone")
    where.add_argument("--prefix", default=sys.prefix, help="for the environment there (default: this one)")
    arguments = parser.parse_args()
    spec = {
        "argv": [sys.executable, "-m", "charterer_trainer.jupyter.kernel", "-f", "{connection_file}"],
        "display_name": "Python (GPU by Charterer)",
        "language": "python",
        "metadata": {"debugger": False},
    }
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "kernel.json").write_text(json.dumps(spec, indent=1))
        prefix = None if arguments.user else arguments.prefix
        there = KernelSpecManager().install_kernel_spec(folder, NAME, user=arguments.user, prefix=prefix)
    print(f"installed {NAME} in {there}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
