"""How long training stands still for a change in place, phase by phase, and for a restart; what changes leave behind.

    python -m tests.bench.in_place [--frameworks torch jax] [--resizes 60] [--restarts 3] [--width 16]

Processes on this machine play the pods, so a pod's own start counts for neither. ``--width`` of the hidden layer makes
torch's state larger: 2500000 is 30 million parameters, 360 MB with AdamW's. Needs ``make training training-torch``.
"""

from __future__ import annotations

import argparse
import random
import signal
import statistics
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.testbed.frameworks import FRAMEWORKS
from tests.unit.trainer.inplace.announcer import Announcer
from tests.unit.trainer.inplace.pods import Pods, Starter, bed, spawned
from tests.unit.trainer.inplace.records import seen, trains_on

SCRIPTS = Path(__file__).parents[1] / "unit" / "trainer" / "inplace"
_PATIENT = 600.0


def script(framework: str) -> Starter:
    """That starts the framework's training script."""
    python = FRAMEWORKS[framework].find()
    if python is None:
        raise SystemExit(f"{framework} is not there: make {FRAMEWORKS[framework].target}")
    return spawned([str(python), str(SCRIPTS / f"train_{framework}.py")])


def resize(operator: Announcer, pods: Pods, width: int) -> None:
    """To that width; those that have left wait, and join again when they are wanted."""
    generation = operator.announce(range(width))
    pods.start(*(index for index in range(width) if index not in pods.processes))
    operator.formed(generation, seconds=_PATIENT)
    trains_on(operator, 0, seconds=_PATIENT)


def changes(folder: Path) -> list[dict[str, Any]]:
    """The first step after each change, of index 0, with the phases and the width before."""
    found: list[dict[str, Any]] = []
    last: dict[str, Any] | None = None
    for row in seen(folder, 0):
        if last is not None and row["generation"] != last["generation"]:
            whole = {"all": sum(row["phases"].values()), "processor": row["cpu"] - last["cpu"]}
            found.append({**row, "phases": {**row["phases"], **whole}, "before": last["world"]})
        last = row
    return found


def tell(name: str, rows: Iterable[Mapping[str, Any]]) -> float:
    """Print the median and the worst of each phase, of all, and of the process's processor time; the median of all.

    An idle machine takes about that processor time: phases are wall-clock time, and longer beside other work.
    """
    rows = list(rows)
    phases = {phase: [row["phases"][phase] for row in rows] for phase in rows[0]["phases"]}
    for phase, values in phases.items():
        print(f"{name:32} {phase:12} median {statistics.median(values):.4f} s, worst {max(values):.4f} s")
    return float(statistics.median(phases["all"]))


def tell_what_is_left(rows: list[dict[str, Any]]) -> None:
    """Print what index 0 holds after some of its changes."""
    for number in sorted({0, len(rows) // 3, 2 * len(rows) // 3, len(rows) - 1}):
        row = rows[number]
        print(f"after {number + 1:3} changes: {row['rss'] >> 20} MB, {row['files']} files, {row['threads']} threads")


def restart_seconds(folder: Path, framework: str, environ: Mapping[str, str], times: int) -> float:
    """Median from the last step of a run to the first step of the next, which has another width."""
    seconds: list[float] = []
    with bed(folder, script(framework), environ) as (operator, pods):
        pods.start_fixed(2)
        trains_on(operator, 0, 5, _PATIENT)
        for number in range(times):
            width = 3 - number % 2
            pods.signal(0, signal.SIGTERM)
            for index in list(pods.processes):
                assert pods.code(index, _PATIENT) == 143
            pods.processes.clear()
            last = seen(folder, 0)[-1]
            pods.start_fixed(width)
            trains_on(operator, 0, 5, _PATIENT)
            first = next(row for row in seen(folder, 0) if row["at"] > last["at"])
            assert (first["step"], first["world"]) == (last["step"] + 1, width)
            seconds.append(first["at"] - last["at"])
    print(f"{framework}: restart 2->3, 3->2: {', '.join(f'{value:.1f}' for value in seconds)} s")
    return statistics.median(seconds)


def torch(arguments: argparse.Namespace) -> None:
    """Random widths among 1 to 4."""
    environ = {"WIDTH": str(arguments.width), "TIMEOUT": str(_PATIENT), "PATIENCE": str(_PATIENT)}
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        with bed(Path(name), script("torch"), environ) as (operator, pods):
            width = 4
            resize(operator, pods, width)
            for _ in range(arguments.resizes):
                width = draw.choice([other for other in (1, 2, 3, 4) if other != width])
                resize(operator, pods, width)
        rows = changes(Path(name))
        wider = [row for row in rows if row["world"] > row["before"]]
        tell("torch, narrower", [row for row in rows if row not in wider])
        tell("torch, wider", wider)
        in_place = tell("torch", rows)
        tell_what_is_left(rows)
    with tempfile.TemporaryDirectory() as name:
        restart = restart_seconds(Path(name), "torch", environ, arguments.restarts)
    print(f"torch: restart / in place = {restart / in_place:.0f}")


def jax(arguments: argparse.Namespace) -> None:
    """2, 3, 2 with nothing compiled before, then the same widths again by new processes."""
    with tempfile.TemporaryDirectory() as cache:
        environ = {"CACHE": cache, "TIMEOUT": str(_PATIENT), "PATIENCE": str(_PATIENT)}
        for kind, widths in (("cold", [2, 3, 2]), ("warm", [2, 3] * 5)):
            with tempfile.TemporaryDirectory() as name:
                with bed(Path(name), script("jax"), environ) as (operator, pods):
                    for width in widths:
                        resize(operator, pods, width)
                rows = changes(Path(name))
                tell(f"jax 2->3, cache {kind}", [row for row in rows if row["world"] == 3])
                tell(f"jax 3->2, cache {kind}", [row for row in rows if row["world"] == 2])
                in_place = statistics.median(row["phases"]["all"] for row in rows)
        tell_what_is_left(rows)
        with tempfile.TemporaryDirectory() as name:
            restart = restart_seconds(Path(name), "jax", environ, arguments.restarts)
    print(f"jax, cache warm: restart / in place = {restart / in_place:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frameworks", nargs="+", choices=["torch", "jax"], default=["torch", "jax"])
    parser.add_argument("--resizes", type=int, default=60)
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--width", type=int, default=16)
    arguments = parser.parse_args()
    for framework in arguments.frameworks:
        {"torch": torch, "jax": jax}[framework](arguments)


if __name__ == "__main__":
    main()
