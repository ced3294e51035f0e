"""Where the seconds of a resize go, on real nodes, for a small job: a restart phase by phase, and one in place.

    python -m tests.bench.resize [--framework jax|torch] [--times 3]

A job of one pod is resized to two and back, as often as ``--times`` says, by ``resizePolicy`` Restart and by InPlace. A
restart's seconds are those from the last step of one run to the first of the next. What a change in place takes while
training goes on (a node, a container, its imports) is not in its standstill. It needs root (`make nodes training`, and
`make training-torch` for torch). Where other work runs beside it, the least of several restarts says most, and the
processor seconds of the slowest pod, which are what its phases take on an idle machine at least.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tests.bench._real_bed import real_bench_bed
from tests.e2e.support import SCRIPTS, Training
from tests.testbed import node_programs
from tests.testbed.frameworks import JAX, TORCH
from tests.testbed.real_bed import RealBed
from tests.testbed.training_pods import TrainingPod, jax_pod, torch_pod

PHASES: Mapping[str, str] = {
    "saved": "all ranks stop, checkpoint",
    "gone": "old processes end",
    "resumed": "next Job begins",
    "running": "pods are bound, containers start",
    "started": "Python starts (under torchrun, torch twice)",
    "imported": "imports, ranks meet",
    "restored": "data, checkpoint",
    "stepped": "compile, first step",
}
"""The phases of a restart, by what ends them."""
_KUBERNETES = ("resumed", "running")
"""Those in which no process of the job runs: Kubernetes and Charterer."""
_STARTS = ("started", "imported", "restored", "trained")
"""What a pod notes of its start, in this order."""
_LOOK_SECONDS = 0.01
_COLOURS = ("#E69F00", "#D55E00", "#CC79A7", "#0072B2", "#56B4E9", "#009E73", "#999999", "#F0E442", "#000000")


async def watch(bed: RealBed, name: str, seen: dict[tuple[int, str], float]) -> None:
    """Note, for ever, when each run of the job was first seen to be resumed, running and gone."""
    while True:
        for raw in bed.runs(name):
            run = int(raw["metadata"]["labels"]["charterer.dev/run"])
            if not raw["spec"].get("suspend"):
                seen.setdefault((run, "resumed"), time.time())
        phases: dict[int, list[str]] = {}
        for pod in bed.pods(name):
            phases.setdefault(int(pod["metadata"]["labels"]["charterer.dev/run"]), []).append(pod["status"]["phase"])
        for run in {run for run, _ in seen}:
            if phases.get(run) and all(phase == "Running" for phase in phases[run]):
                seen.setdefault((run, "running"), time.time())
            if (run, "running") in seen and "Running" not in phases.get(run, ()):
                seen.setdefault((run, "gone"), time.time())
        await asyncio.sleep(_LOOK_SECONDS)


def restart(job: Training, seen: Mapping[tuple[int, str], float], run: int) -> Mapping[str, float]:
    """Seconds of each phase between the runs ``run`` and ``run + 1``, the slowest pod's where there are several."""

    def last(what: str, number: int) -> float:
        return max(float(line["at"]) for line in job.notes(what, run=number))

    def first(what: str, number: int) -> float:
        by_pod = {line["pod"]: float(line["at"]) for line in reversed(job.notes(what, run=number))}
        return max(by_pod.values())

    stopped, after = last("stop", run), run + 1
    ends = {
        "saved": max(float(line["at"]) for line in job.notes("end", run=run)),
        "gone": seen[run, "gone"],
        "resumed": seen[after, "resumed"],
        "running": seen[after, "running"],
        "started": first("started", after),
        "imported": first("imported", after),
        "restored": first("restored", after),
        "stepped": first("trained", after),
    }
    seconds, before = {}, stopped
    for phase in PHASES:  # containers are told to run a moment after their processes do
        seconds[phase] = max(0.0, ends[phase] - before)
        before = max(before, ends[phase])
    return seconds


def jax_pods(folder: Path) -> tuple[TrainingPod, TrainingPod]:
    """A job that is restarted, and one that is resized in place."""
    python = JAX.ensure()
    compiled = {
        "JAX_COMPILATION_CACHE_DIR": "/checkpoints/compiled",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    again = jax_pod(SCRIPTS / "regress.py", folder / "restarts", python, **compiled)
    return again, jax_pod(SCRIPTS / "in_place.py", folder / "place", python)


def torch_pods(folder: Path) -> tuple[TrainingPod, TrainingPod]:
    """The same under torchrun, and with one process in each pod."""
    python = TORCH.ensure()
    again = torch_pod(SCRIPTS / "regress_torch.py", folder / "restarts", python, torchrun=True)
    return again, torch_pod(SCRIPTS / "in_place_torch.py", folder / "place", python, torchrun=False)


FRAMEWORKS: Mapping[str, Callable[[Path], tuple[TrainingPod, TrainingPod]]] = {"jax": jax_pods, "torch": torch_pods}


def processor_seconds(job: Training, run: int) -> Mapping[str, float]:
    """Those of each phase of the start of that run, the slowest pod's, and of the end of the one before."""
    starts: dict[int, list[float]] = {}
    for what in _STARTS:
        first = {line["pod"]: float(line["processor"]) for line in reversed(job.notes(what, run=run))}
        for pod, seconds in first.items():
            starts.setdefault(pod, [0.0]).append(seconds)
    spent = [[after - before for before, after in pairwise(seconds)] for seconds in starts.values()]
    phases = dict(zip(("started", "imported", "restored", "stepped"), map(max, zip(*spent, strict=True)), strict=True))
    stops, ends = (job.notes(what, run=run - 1, pod=0)[0]["processor"] for what in ("stop", "end"))
    return {"saved": ends - stops, **phases}


async def measure(
    bed: RealBed, again: TrainingPod, place: TrainingPod, times: int
) -> tuple[list[Mapping[str, float]], list[Mapping[str, float]], list[Mapping[str, float]]]:
    """The phases of each restart, alternately wider and narrower, their processor seconds, and of changes in place."""
    bed.operator()
    await bed.pool(maxNodes=2)
    await bed.budget()

    seen: dict[tuple[int, str], float] = {}
    watching = asyncio.create_task(watch(bed, "restarts", seen))
    job = await Training.submit(bed, "restarts", again, resizePolicy="Restart")
    await job.noted("trained", run=1)
    for number in range(1, 2 * times + 1):
        pods = 2 if number % 2 else 1
        await job.resize(pods)
        await job.noted("trained", pods, run=number + 1)
    await job.until(lambda: (2 * times + 1, "running") in seen)  # kubelets tell of it after the first step
    job.enough()
    await bed.complete("restarts")
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    restarts = [restart(job, seen, run) for run in range(1, 2 * times + 1)]
    processor = [processor_seconds(job, run + 1) for run in range(1, 2 * times + 1)]

    job = await Training.submit(bed, "place", place, resizePolicy="InPlace")
    await job.until(lambda: (bed.tj("place").get("group") or {}).get("formed") == 1)
    for number in range(1, 2 * times + 1):
        pods = 2 if number % 2 else 1
        await job.resize(pods)
        await job.noted("trained", generation=number + 1, pod=0)
        await bed.until(partial(_settled, bed, pods))
    job.enough()
    await bed.complete("place")
    changes = [job.notes("trained", generation=number + 1, pod=0)[0]["phases"] for number in range(1, 2 * times + 1)]
    return restarts, processor, changes


def _settled(bed: RealBed, pods: int) -> bool:
    return "resizedFrom" not in bed.tj("place") and len(bed.pods("place")) == pods


def medians(measured: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    """The median seconds of each phase."""
    return {phase: statistics.median([each[phase] for each in measured]) for phase in measured[0]}


def show(
    title: str,
    measured: Sequence[Mapping[str, float]],
    words: Mapping[str, str],
    processor: Sequence[Mapping[str, float]] = (),
) -> None:
    """Print least and median of each phase, the least processor seconds, and the least, median and worst sum."""
    sums = [sum(each.values()) for each in measured]
    spread = f"least {min(sums):.2f} s, median {statistics.median(sums):.2f} s, worst {max(sums):.2f} s of {len(sums)}"
    print(f"{title}: {spread}")
    for phase, seconds in medians(measured).items():
        spent = [each[phase] for each in processor if phase in each]
        of_those = f", of a processor {min(spent):.2f} s" if spent else ""
        print(f"  {min(each[phase] for each in measured):6.2f} {seconds:6.2f} s  {words.get(phase, phase)}{of_those}")
    if processor:
        theirs = [sum(each[phase] for phase in _KUBERNETES) for each in measured]
        least = min(theirs) + min(sum(each.values()) for each in processor)
        print(f"  {min(theirs):6.2f} {statistics.median(theirs):6.2f} s  of these, Kubernetes and Charterer")
        print(f"  {least:6.2f} s  their least, and the least processor seconds; the old processes' end comes to it")


def draw(bars: Mapping[str, Mapping[str, float]], words: Mapping[str, str], file: Path) -> None:
    """A bar for each kind of change, of its phases one after the other."""
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    axes = figure.subplots()
    phases = list(dict.fromkeys(phase for bar in bars.values() for phase in bar))
    for place, bar in enumerate(bars.values()):
        left = 0.0
        for phase, seconds in bar.items():
            colour = _COLOURS[phases.index(phase) % len(_COLOURS)]
            axes.barh(place, seconds, left=left, color=colour, edgecolor="white", linewidth=0.5)
            left += seconds
        axes.text(left + 0.05, place, f"{left:.1f} s", va="center")
    axes.set_yticks(range(len(bars)), list(bars))
    axes.invert_yaxis()
    axes.set_xlabel("seconds for which training stands still")
    axes.spines[["top", "right"]].set_visible(False)
    shown = [phase for phase in phases if phase in words]
    handles = [Patch(color=_COLOURS[phases.index(phase) % len(_COLOURS)]) for phase in shown]
    figure.legend(handles, [words[phase] for phase in shown], loc="outside right upper", frameon=False, fontsize=9)
    figure.savefig(file, dpi=120)


async def run(framework: str, times: int, picture: Path | None) -> None:
    """Measure, print and draw."""
    before = os.getloadavg()[0]
    async with real_bench_bed(2) as (bed, jobs):
        restarts, processor, changes = await measure(bed, *FRAMEWORKS[framework](jobs), times)
    print(f"{framework}, load averages {before:.1f} before and {os.getloadavg()[0]:.1f} after")
    kinds = {
        "restart, 1 to 2 pods": restarts[::2],
        "restart, 2 to 1 pods": restarts[1::2],
        "in place, 1 to 2 pods": changes[::2],
        "in place, 2 to 1 pods": changes[1::2],
    }
    for (title, measured), spent in zip(kinds.items(), (processor[::2], processor[1::2], (), ()), strict=True):
        show(title, measured, PHASES, spent)
    saved = statistics.median([sum(each.values()) for each in restarts])
    stood = statistics.median([sum(each.values()) for each in changes])
    print(f"a restart stands still {saved / stood:.1f} times as long as a change in place")
    if picture is not None:
        bars = {title: medians(measured) for title, measured in kinds.items()}
        for title in list(bars)[2:]:
            bars[title] = {"in place": sum(bars[title].values())}
        draw(bars, {**PHASES, "in place": "a change in place, all of it"}, picture)


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=list(FRAMEWORKS), default="jax")
    parser.add_argument("--times", type=int, default=3, help="times that the job is widened and narrowed (3)")
    parser.add_argument("--picture", type=Path, help="file to draw the medians to, such as docs/images/resize.png")
    arguments = parser.parse_args()
    if reason := node_programs.missing():
        sys.exit(reason)
    asyncio.run(run(arguments.framework, arguments.times, arguments.picture))


if __name__ == "__main__":
    main()
