"""Makes what tests, the demo and benches need, once per machine: ``python -m tests.testbed.make testbed nodes``.

With ``--if-possible``, a name that this machine cannot make is reported in one line and is no failure. Its tests are
skipped.

``--meanwhile "nodes image"`` makes these names in order while the command after ``--`` runs, such as pytest. Repeated
options run in parallel. Tests wait for the names that they need (tests/awaited.py). Output goes to ``out/builds.log``,
and one line to the screen when everything is made. A failure is repeated at the end and fails the whole command.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TextIO

from tests.testbed import (
    build,
    focus_validator,
    frameworks,
    job_controllers,
    karpenter,
    node_programs,
    operator_image,
    prometheus,
    promises,
)
from tests.testbed.build import ROOT
from tests.testbed.cache import BuildError, Say, Thing, UnsuitableError
from tests.testbed.frameworks import JAX, JUPYTER, TORCH, TORCH_TRAINERS
from tests.testbed.kuberay import program as kuberay
from tests.testbed.kueue import program as kueue
from tests.testbed.progress import Progress

_LOG = ROOT / "out/builds.log"


@dataclass(frozen=True, slots=True)
class _Name:
    """A name that can be made. The functions return its missing things, and why this machine cannot make it."""

    lacking: Callable[[Say], list[Thing]]
    unsuitable: Callable[[], str | None] = lambda: None


NAMES = {
    "testbed": _Name(lambda say: build.lacking(build.targets(), say)),
    "nodes": _Name(node_programs.lacking, node_programs.unsuitable),
    "prometheus": _Name(prometheus.lacking),
    "karpenter": _Name(karpenter.lacking),
    "job-controllers": _Name(job_controllers.lacking),
    "kueue": _Name(kueue.lacking),
    "kuberay": _Name(kuberay.lacking),
    "training": _Name(lambda say: frameworks.lacking(JAX, JUPYTER)),
    "training-torch": _Name(lambda say: frameworks.lacking(TORCH, TORCH_TRAINERS)),
    "image": _Name(operator_image.lacking, operator_image.unsuitable),
    "focus": _Name(focus_validator.lacking),
}


def _things(name: str, say: Say) -> list[Thing]:
    if reason := NAMES[name].unsuitable():
        raise UnsuitableError(reason)
    return NAMES[name].lacking(say)


def make(names: Sequence[str], if_possible: bool, output: TextIO) -> None:
    """Make the missing things for these names. Raises BuildError."""
    progress, things = Progress([], output), []
    for name in names:
        try:
            things += _things(name, progress.say)
        except UnsuitableError as error:
            if not if_possible:
                raise
            progress.say(f"{name}: {error}")
    Progress(things, output).run()


class Meanwhile(threading.Thread):
    """Makes the missing things for each of ``names`` in order, and keeps or breaks the name's promise.

    ``failures`` maps a name to its error message.
    """

    def __init__(self, names: Sequence[str], output: TextIO) -> None:
        super().__init__(daemon=True)
        self.failures: dict[str, str] = {}
        self._output = output
        self._promises = {name: promises.Promise(name) for name in names}

    def run(self) -> None:
        """Make everything. On Linux, this thread and its children have a lower priority than the tests."""
        if sys.platform == "linux":
            os.nice(5)
        for name, promise in self._promises.items():
            try:
                make([name], False, self._output)
            except UnsuitableError as error:
                print(f"builds: {name}: {error}", file=self._output, flush=True)
                promise.keep()  # the test finds nothing and is skipped
            except Exception as error:
                self.failures[name] = str(error) or repr(error)
                print(f"builds: {name} failed: {self.failures[name]}", file=self._output, flush=True)
                promise.break_(self.failures[name])
            else:
                promise.keep()


def meanwhile(groups: Sequence[Sequence[str]], command: Sequence[str]) -> int:
    """Run the command while these are made. Return its exit status, or 1 if something could not be made."""
    started = time.monotonic()
    _LOG.parent.mkdir(exist_ok=True)
    with promises.made_here() as environment, _LOG.open("w", buffering=1) as output:
        needed = [[name for name in names if _needed(name)] for names in groups]
        threads = [Meanwhile(names, output) for names in needed if names]
        if threads:
            names = ", ".join(name for names in needed for name in names)
            print(f"builds: {names}, while tests run ({_LOG.relative_to(ROOT)})", flush=True)
        with subprocess.Popen(command, env={**os.environ, **environment}) as process:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            failures = {name: said for thread in threads for name, said in thread.failures.items()}
            if threads and not failures:
                print(f"\nbuilds: all is made after {time.monotonic() - started:.0f} s", flush=True)
            status = process.wait()
    for name, said in failures.items():
        print(f"builds: {name} failed: {said}", file=sys.stderr)
    return status or (1 if failures else 0)


def _needed(name: str) -> bool:
    return NAMES[name].unsuitable() is None and bool(NAMES[name].lacking(lambda line: None))


def main() -> int:
    """Make the things that the arguments name. Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.testbed.make", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--if-possible", action="store_true", help="what this machine cannot make is no failure")
    parser.add_argument("--meanwhile", action="append", type=str.split, default=[], metavar="NAMES")
    before, command = _split(sys.argv[1:])
    given = parser.parse_args(before)
    try:
        make(given.names, given.if_possible, sys.stdout)
        return meanwhile(given.meanwhile, command) if command else 0
    except BuildError as error:
        print(f"builds: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("builds: interrupted; what was made stays, the rest is made next time", file=sys.stderr)
        return 130


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the arguments at ``--``."""
    place = arguments.index("--") if "--" in arguments else len(arguments)
    return list(arguments[:place]), list(arguments[place + 1 :])


if __name__ == "__main__":
    sys.exit(main())
