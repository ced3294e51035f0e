"""What a job's GPUs do now: as its pods and its last report tell, and not known where they tell nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.budget import JobTime
from charterer.domain.cost_row import WHOLE
from charterer.domain.interactive import Interactive, Usage
from charterer.domain.job import Job
from charterer.domain.job_records import beside_empty, doing
from charterer.domain.pod import PodPhase
from charterer.domain.reports import Bottleneck, BottleneckKind, Progress
from tests.factory import allocation, at, job, pod, run

HERE = allocation("a100-1", run=2)
STARTS = job(allocation=HERE, last_run=2)
RUNS = replace(STARTS, runs=(run(2, pod(run=2)),))


def report(
    number: int = 2, fraction: float | None = 0.5, step: int | None = None, reached: float | None = None
) -> Progress:
    return Progress(number, fraction, step, None, at(0), reached=reached)


def held_up(*found: tuple[BottleneckKind, float]) -> Job:
    bottlenecks = tuple(Bottleneck(kind, 2, 1.0, lost) for kind, lost in found)
    return replace(RUNS, progress=report(), bottlenecks=bottlenecks)


@pytest.mark.parametrize(
    ("doer", "what"),
    [
        (job(), None),
        (STARTS, JobTime.RUN_START),
        (replace(STARTS, runs=(run(2, pod(run=2, phase=PodPhase.PENDING)),)), JobTime.RUN_START),
        (RUNS, None),
        (replace(RUNS, progress=report(number=1)), JobTime.RUN_START),
        (replace(RUNS, progress=Progress(2, None, None, 100.0, at(0))), None),
        (replace(RUNS, progress=report()), JobTime.TRAINED),
        (replace(RUNS, progress=report(reached=0.5)), JobTime.TRAINED),
        (replace(RUNS, progress=report(reached=0.51)), JobTime.REDONE),
    ],
)
def test_a_run_starts_until_it_reports_and_then_trains_or_trains_again(doer: Job, what: JobTime | None) -> None:
    assert doing(doer) == (() if what is None else ((what, WHOLE),))


def test_steps_and_fraction_must_both_say_that_it_was_farther_before() -> None:
    larger = Progress(2, 0.1, 600, None, at(0), reached=0.5, reached_step=500)
    assert not larger.behind, "the job was made larger, and goes on"
    assert replace(larger, step=400).behind
    assert not replace(larger, fraction=0.6, step=400).behind, "its batch was made larger"
    assert Progress(2, None, 400, None, at(0), reached_step=500).behind
    assert not Progress(2, None, 400, None, at(0), reached=0.5).behind, "nothing can be compared"


def test_findings_take_their_parts_of_the_time_and_the_rest_is_training() -> None:
    found = held_up((BottleneckKind.SLOW_WORKER, 0.25), (BottleneckKind.INPUT_STARVED, 0.2))
    assert dict(doing(found)) == {JobTime.SLOW: 250, JobTime.STARVED: 200, JobTime.TRAINED: 550}
    assert doing(held_up((BottleneckKind.CHECKPOINT_TOO_LONG, 0.0))) == ((JobTime.TRAINED, WHOLE),)


def test_findings_that_overlap_take_no_more_than_all_of_the_time() -> None:
    found = dict(doing(held_up((BottleneckKind.SLOW_NODE, 0.9), (BottleneckKind.SYNC_BOUND, 0.6))))
    assert found == {JobTime.SLOW: 600, JobTime.WAITING_FOR_PEERS: 400}


@pytest.mark.parametrize(
    ("progress", "what"),
    [
        (None, None),
        (Progress(2, None, None, None, at(0), busy=True, usage=Usage(1, None)), JobTime.TRAINED),
        (Progress(2, None, None, None, at(0), busy=False, usage=Usage(1, at(0))), JobTime.NO_CELL),
    ],
)
def test_an_interactive_job_trains_while_a_cell_runs(progress: Progress | None, what: JobTime | None) -> None:
    session = replace(RUNS, interactive=Interactive(1), progress=progress)
    assert doing(session) == (() if what is None else ((what, WHOLE),))


def test_gpus_that_stay_empty_do_nothing_whatever_the_others_do() -> None:
    parts = beside_empty(doing(held_up((BottleneckKind.SYNC_BOUND, 0.5))), 6, 8)
    assert dict(parts) == {JobTime.WAITING_FOR_PEERS: 125, JobTime.TRAINED: 125, JobTime.KEPT_EMPTY: 750}
    assert beside_empty((), 1, 3) == ((JobTime.KEPT_EMPTY, 333),), "of the others nothing is known"
    assert beside_empty(doing(RUNS), 0, 8) == ()
