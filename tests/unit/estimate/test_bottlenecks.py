"""Which pods and which parts of steps hold a run up, and what does not count as a sign of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import comb

import pytest

from charterer.domain.ids import ClassId, RentalId
from charterer.domain.reports import Bottleneck, BottleneckKind
from charterer.domain.time import Instant, after
from charterer.estimate import bottlenecks
from charterer.estimate.bottlenecks import (
    LEAST_NODES,
    CheckpointTimes,
    NodeHistory,
    PersistentExcess,
    RunReports,
    Step,
    StepParts,
)
from tests.bench.bottlenecks import delays, false_alarms

EVEN = StepParts(compute=0.9, sync=0.08, load=0.02)
SLOW, WAITS = StepParts(1.2, 0.02, 0.02), StepParts(0.9, 0.32, 0.02)


def reported(parts: Sequence[StepParts], times: int = 40, every: float = 10.0) -> RunReports:
    """A run whose pods each report the same again and again."""
    run = RunReports(3, len(parts))
    for number in range(times):
        for index, own in enumerate(parts):
            run.add(index, own, after(Instant(0), number * every + index))
    return run


def kinds(run: RunReports) -> list[BottleneckKind]:
    return [finding.kind for finding in run.findings()]


def test_equal_pods_are_no_finding() -> None:
    assert reported([EVEN] * 4).findings() == ()


def test_the_pod_that_computes_longest_and_waits_least_is_the_slow_one() -> None:
    (found,) = reported([WAITS, WAITS, SLOW, WAITS]).findings()
    assert replace(found, value=0.0, lost=0.0, recovered=0.0) == Bottleneck(
        BottleneckKind.SLOW_WORKER, 3, value=0.0, lost=0.0, pod=2
    )
    assert found.value == pytest.approx(1.2 / 0.9)
    assert found.lost == found.recovered == pytest.approx(0.3 / 1.24, abs=0.01)


def test_a_slow_worker_is_found_after_as_many_reports_as_the_rule_needs_and_not_before() -> None:
    parts = [WAITS, SLOW]
    assert kinds(reported(parts, bottlenecks.FOUND)) == [BottleneckKind.SLOW_WORKER]
    assert kinds(reported(parts, bottlenecks.FOUND - 1)) == []


def test_another_slow_pod_leaves_less_to_be_recovered() -> None:
    (found,) = reported([WAITS, WAITS, SLOW, replace(SLOW, compute=1.18, sync=0.04)]).findings()
    assert found.pod == 2
    assert found.recovered == pytest.approx(0.02 / 1.24, abs=0.01) != found.lost


def test_a_pod_that_computes_long_and_waits_long_as_well_holds_nobody_up() -> None:
    waits_too = StepParts(1.1, 0.14, 0.0)
    assert BottleneckKind.SLOW_WORKER not in kinds(reported([StepParts(0.9, 0.1, 0.24), waits_too]))


def test_step_times_that_differ_are_not_of_synchronous_training() -> None:
    assert kinds(reported([StepParts(0.5, 0.01, 0.0), StepParts(0.9, 0.0, 0.0)])) == []


@pytest.mark.parametrize("nonsense", [StepParts(0.0, 0.0, 0.0), StepParts(1e6, 0.0, 0.0), StepParts(1e-9, 0.0, 0.0)])
def test_a_rank_that_reports_nonsense_makes_no_worker_slow(nonsense: StepParts) -> None:
    assert BottleneckKind.SLOW_WORKER not in kinds(reported([EVEN, EVEN, EVEN, nonsense]))


def test_reports_of_pods_that_the_run_does_not_have_are_left_out() -> None:
    run = RunReports(1, 2)
    assert not run.add(2, EVEN, Instant(0))
    assert not run.add(-1, EVEN, Instant(0))
    assert run.known == 0


def test_nobody_is_compared_with_a_pod_that_has_fallen_silent() -> None:
    run = reported([WAITS, SLOW], times=bottlenecks.FOUND - 1)
    for number in range(40):
        run.add(1, SLOW, after(Instant(0), 1000.0 + number * 10.0))
    assert kinds(run) == []


def test_many_reports_of_the_same_seconds_are_no_more_evidence() -> None:
    assert kinds(reported([WAITS, SLOW], times=100, every=0.5)) == []


def test_a_finding_ends_when_half_of_the_reports_are_well_again() -> None:
    run, at = reported([WAITS, SLOW]), 1000.0
    changes = []
    for number in range(20):
        for index in (0, 1):
            if run.add(index, EVEN, after(Instant(0), at + number * 10.0 + index)):
                changes.append(number)
    assert changes == [bottlenecks.WINDOW - bottlenecks.OVER - 1]
    assert kinds(run) == []


def test_waiting_for_input_is_found_and_names_the_pod_unless_all_wait() -> None:
    starved = StepParts(0.6, 0.0, 0.4)
    (all_wait,) = reported([starved, starved]).findings()
    assert (all_wait.kind, all_wait.pod) == (BottleneckKind.INPUT_STARVED, None)
    assert all_wait.lost == pytest.approx(0.4)
    (one,) = reported([StepParts(0.6, 0.38, 0.02), starved]).findings()
    assert (one.kind, one.pod) == (BottleneckKind.INPUT_STARVED, 1)


def test_waiting_for_others_counts_only_if_all_pods_wait() -> None:
    bound = StepParts(0.5, 0.5, 0.0)
    assert kinds(reported([bound, bound, bound])) == [BottleneckKind.SYNC_BOUND]
    assert BottleneckKind.SYNC_BOUND not in kinds(reported([bound, bound, StepParts(0.98, 0.02, 0.0)]))


def test_the_bound_on_false_findings_is_that_of_the_documentation() -> None:
    """Of values whose median is the limit, each side is equally likely."""
    tail = sum(comb(bottlenecks.WINDOW, more) for more in range(bottlenecks.FOUND, bottlenecks.WINDOW + 1))
    assert tail == 466
    assert 360 * tail / 2**bottlenecks.WINDOW < 1.6e-4


def test_values_at_the_limit_do_not_exceed_it_and_two_pauses_do_not_hide_what_does() -> None:
    at, over = PersistentExcess(1.0), PersistentExcess(1.0)
    for number in range(bottlenecks.WINDOW):
        at.add(1.0)
        over.add(0.1 if number in (5, 6) else 1.5)
    assert not at.found
    assert over.found
    assert over.median == pytest.approx(1.5)


def test_undisturbed_hours_have_no_finding_and_a_throttled_pod_is_found_in_minutes() -> None:
    """A sample of what tests.bench.bottlenecks measures."""
    assert false_alarms(pods=2, hours=6, scatter=1.0) == 0
    found, others = delays("throttled to 70 %", pods=2, runs=3, scatter=1.0)
    assert len(found) == 3
    assert max(found) < 400.0
    assert others == 0


STEP = Step(ClassId("team", "sft"), "A100", 8, 32)


def history(*seconds: float) -> NodeHistory:
    known = NodeHistory()
    for number, own in enumerate(seconds):
        known.learn(STEP, RentalId(f"a100-{number}"), own)
    return known


def test_a_node_is_slow_against_many_others_of_its_class() -> None:
    assert history(1.4, *[1.0] * LEAST_NODES).slowdown(STEP, RentalId("a100-0")) == pytest.approx(1.4)


@pytest.mark.parametrize(
    "seconds",
    [
        (1.2, *[1.0] * LEAST_NODES),  # too little
        (1.4, *[1.0] * (LEAST_NODES - 1)),  # too few
        (1.4, 1.35, *[1.0] * LEAST_NODES),  # another one is as slow: jobs of the class differ
    ],
)
def test_a_node_is_not_slow_by_little_nor_against_few_nor_where_others_are_as_slow(seconds: tuple[float, ...]) -> None:
    assert history(*seconds).slowdown(STEP, RentalId("a100-0")) is None


def test_of_too_many_nodes_the_ones_not_heard_of_are_forgotten() -> None:
    known = history(1.4, *[1.0] * 40)
    assert known.slowdown(STEP, RentalId("a100-0")) is None
    assert known.slowdown(STEP, RentalId("a100-99")) is None


def test_a_checkpoint_is_too_long_by_its_median_and_a_report_that_repeats_it_is_not_another_one() -> None:
    times = CheckpointTimes()
    assert [times.add(seconds) for seconds in (50.0, 50.0, 50.0)] == [True, False, False]
    assert times.longer_than(30.0) is None
    times.add(44.0)
    assert times.longer_than(30.0) == pytest.approx(47.0)
    assert times.longer_than(60.0) is None
