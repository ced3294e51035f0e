"""Variants of a job: their speeds by one measure, and who tries one of which nothing is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import ClassId, JobId, PoolId
from charterer.domain.job import Job, ResizePolicy, RunOutcome, RunRecord, Variant
from charterer.domain.option import Option
from charterer.domain.profile import CurveSource, Origin, Phase, Profile, SpeedCurve, ThroughputTable
from charterer.domain.time import after
from charterer.policy.jobs.groups import trying_jobs
from charterer.policy.options.market import MenuKey, market, pool_offer
from charterer.policy.options.menu import Menu, build_menu
from charterer.policy.options.option_value import in_place
from charterer.policy.options.speeds import ClassKnowledge, paced
from charterer.policy.solve.phase_dp import InPlaceResize, OptionTable
from tests.worlds import World

GNN, OUT = ClassId("team", "gnn"), ClassId("team", "gnn.outofcore")
ONE = Variant("outofcore", OUT, 1, 1, 1)


def curve(*points: tuple[int, float], learned: bool = False, gpu_type: str = "a100") -> SpeedCurve:
    origins = tuple(Origin(CurveSource.MEASURED, 50, value, value) for _, value in points) if learned else ()
    return SpeedCurve(gpu_type, ThroughputTable(points), origins)


def profile(class_id: ClassId, *phases: Phase, reports: int = 0, samples: float = 1.0) -> Profile:
    return Profile(class_id, 1, phases, None, None, 30.0, reports=reports, samples=samples)


def declared(class_id: ClassId, *points: tuple[int, float]) -> Profile:
    known = (curve(*points),)
    return replace(profile(class_id, Phase(1.0, known)), declared=known)


DISTRIBUTED = declared(GNN, (4, 620.0), (8, 1000.0), (16, 1550.0))


def menu(
    template: Profile | None,
    other: ClassKnowledge,
    variant: Variant = ONE,
    explore: bool = False,
    tries: bool = False,
    failed: frozenset[tuple[PoolId, int, str]] = frozenset(),
) -> Menu:
    world = World()
    world.pool("a100", gpus=8, price="8")
    key = MenuKey(None if template is None else GNN, 4, 8, 16, failed=failed, variants=(variant,), tries=tries)
    return build_menu(key, template, market(map(pool_offer, world.pools.values())), explore=explore, others=(other,))


def speeds(found: Menu, phase: int = 0) -> dict[tuple[str, int], float]:
    return {(option.variant, option.gpus): round(option.speed, 6) for option in found.stages[phase]}


def test_declared_variants_are_compared_in_samples_a_second() -> None:
    found = speeds(menu(DISTRIBUTED, ClassKnowledge(declared(OUT, (1, 310.0)))))
    assert found == {("", 4): 1.0, ("", 8): 1.612903, ("", 16): 2.5, ("outofcore", 1): 0.5}


def test_learned_curves_count_their_own_batches_so_a_step_of_twice_the_batch_is_twice_the_work() -> None:
    template = profile(GNN, Phase(1.0, (curve((4, 3.0), learned=True),)), reports=50, samples=100.0)
    other = profile(OUT, Phase(1.0, (curve((1, 3.0), learned=True),)), reports=50, samples=200.0)
    assert speeds(menu(template, ClassKnowledge(other))) == {("", 4): 1.0, ("outofcore", 1): 2.0}


def test_a_variant_has_the_phases_of_its_job_and_in_each_its_mean_pace() -> None:
    phases = (Phase(0.5, (curve((4, 1.0), learned=True),)), Phase(1.0, (curve((4, 2.0), learned=True),)))
    own = (Phase(0.25, (curve((1, 1.0), learned=True),)), Phase(1.0, (curve((1, 3.0), learned=True),)))
    found = menu(profile(GNN, *phases, reports=50), ClassKnowledge(profile(OUT, *own, reports=50)))
    assert found.until == (0.5, 1.0)
    assert speeds(found) == {("", 4): 1.0, ("outofcore", 1): 1.5}
    assert speeds(found, 1) == {("", 4): 2.0, ("outofcore", 1): 3.0}


def test_one_phase_for_a_declared_job_takes_as_long_as_the_variants_own_phases() -> None:
    own = profile(OUT, Phase(0.25, (curve((1, 1.0), learned=True),)), Phase(1.0, (curve((1, 3.0), learned=True),)))
    (phase,) = paced(own, [1.0]).phases
    assert phase.curves[0].learned[0][1] == pytest.approx(2.0)


def test_variants_are_measured_by_the_first_that_has_a_curve_where_the_template_has_none() -> None:
    assert speeds(menu(None, ClassKnowledge(declared(OUT, (1, 310.0))))) == {("outofcore", 1): 1.0}


def test_a_declared_curve_in_another_unit_leaves_its_variant_out_and_nothing_else() -> None:
    assert {name for name, _ in speeds(menu(DISTRIBUTED, ClassKnowledge(declared(OUT, (1, 0.6)))))} == {""}


def test_what_was_measured_of_both_is_believed_however_it_differs() -> None:
    template = profile(GNN, Phase(1.0, (curve((4, 1.0), learned=True),)), reports=50)
    other = profile(OUT, Phase(1.0, (curve((1, 1000.0), learned=True),)), reports=50)
    assert speeds(menu(template, ClassKnowledge(other)))["outofcore", 1] == 1000.0


def test_a_restart_takes_what_it_takes_in_the_slowest_class() -> None:
    other = replace(declared(OUT, (1, 310.0)), restart_seconds=600.0)
    assert menu(DISTRIBUTED, ClassKnowledge(other)).table.restart == 600.0


LEARNED = profile(GNN, Phase(1.0, (curve((4, 1.0), (8, 1.6), learned=True),)), reports=50)
PRIOR = profile(
    OUT, Phase(1.0, (SpeedCurve("a100", ThroughputTable(((1, 9.0),)), (Origin(CurveSource.PRIOR, 0, 1, 99),)),))
)


@pytest.mark.parametrize("unknown", [None, PRIOR])
def test_a_variant_without_a_curve_is_no_option(unknown: Profile | None) -> None:
    for explore, tries in ((False, False), (False, True), (True, False)):
        found = menu(LEARNED, ClassKnowledge(unknown), explore=explore, tries=tries)
        assert {option.variant for option in found.options} == {""}


def test_the_job_that_tries_hopes_for_the_speed_of_the_fastest_option() -> None:
    found = menu(LEARNED, ClassKnowledge(None), Variant("outofcore", OUT, 1, 2, 4), explore=True, tries=True)
    (hoped,) = [option for option in found.options if option.variant]
    assert (hoped.gpus, hoped.trial) == (2, True)
    assert hoped.speed == max(option.speed for option in found.options if not option.variant)
    without = menu(LEARNED, ClassKnowledge(None), explore=True)
    assert (found.ceiling, found.usual) == (without.ceiling, without.usual)


def test_a_width_on_which_the_variant_failed_is_not_tried_again() -> None:
    failed = frozenset({(PoolId("a100"), 1, "outofcore")})
    assert {option.variant for option in menu(LEARNED, ClassKnowledge(None), explore=True, tries=True).options} != {""}
    for known in (
        menu(LEARNED, ClassKnowledge(None), explore=True, tries=True, failed=failed),
        menu(LEARNED, ClassKnowledge(None, False, frozenset({("a100", 1)})), explore=True, tries=True),
    ):
        assert {option.variant for option in known.options} == {""}


def test_a_failure_of_one_variant_says_nothing_of_the_others() -> None:
    failed = frozenset({(PoolId("a100"), 16, "outofcore")})
    template = profile(GNN, Phase(1.0, (curve((4, 1.0), (8, 1.6), learned=True),)), reports=50)
    wide = replace(template, phases=(Phase(1.0, (SpeedCurve("a100", ThroughputTable(((4, 1.0), (16, 2.0)))),)),))
    assert ("", 16) in speeds(menu(wide, ClassKnowledge(None), failed=failed))


def test_another_variant_in_the_same_pool_is_a_restart_also_for_a_job_that_is_resized_in_place() -> None:
    eight = menu(
        DISTRIBUTED, ClassKnowledge(declared(OUT, (8, 900.0), (16, 1200.0))), Variant("outofcore", OUT, 8, 8, 16)
    )
    table = OptionTable.of(eight.stages, 30.0, InPlaceResize(2.0, {PoolId("a100"): 8}, 1))
    at = {(option.variant, option.gpus): option for option in eight.options}

    def seconds(here: Option, to: Option) -> float:
        return table.change_seconds(table.resizable_pool(here), eight.options.index(to))

    assert seconds(at["", 8], at["", 16]) == 2.0
    assert seconds(at["", 8], at["outofcore", 16]) == 30.0
    assert in_place(at["", 8], 1, at["", 16], 2, 1)
    assert not in_place(at["", 8], 1, at["outofcore", 16], 2, 1)


# --- who tries --------------------------------------------------------------------------------------------------------


def a_job(world: World, name: str, age: float, **changes: object) -> Job:
    job = world.job(name, gpus=(4, 8, 16), profile="gnn", hours_left=10.0, age_seconds=age)
    job = world.jobs[job.id] = replace(job, variants=(ONE,), **changes)  # type: ignore[arg-type]
    return job


def runs(world: World, name: str, variant: str = "") -> None:
    node = world.rental()
    allocation = world.runs_on(name, node.id, gpus=8, speed=1.0).allocation
    assert allocation is not None
    option = replace(allocation.option, variant=variant)
    world.jobs[JobId(name)] = replace(world.jobs[JobId(name)], allocation=replace(allocation, option=option))


def a_world() -> World:
    world = World()
    world.budget()
    world.pool("a100", gpus=8, price="8")
    return world


def tries(world: World, *profiles: Profile) -> frozenset[JobId]:
    return trying_jobs(world.jobs.values(), {known.id: known for known in profiles}, world.now)


def test_one_job_of_a_class_tries_the_latest_that_runs_before_those_that_wait() -> None:
    world = a_world()
    a_job(world, "waits", 0.0)
    assert tries(world) == {"waits"}
    for name, age in (("first", 300.0), ("second", 200.0)):
        a_job(world, name, age)
        runs(world, name)
    assert tries(world) == {"second"}


def test_the_job_that_tries_a_variant_goes_on_with_it() -> None:
    world = a_world()
    for name, age in (("first", 300.0), ("second", 200.0)):
        a_job(world, name, age)
        runs(world, name, "outofcore" if name == "first" else "")
    assert tries(world) == {"first"}


def test_a_job_of_whose_variant_nothing_was_learned_in_time_tries_it_no_more() -> None:
    world = a_world()
    a_job(world, "first", 300.0)
    runs(world, "first", "outofcore")
    world.passes(600.0)
    assert tries(world) == {"first"}
    world.passes(60.0)
    assert tries(world) == frozenset()


def test_nobody_tries_a_variant_that_has_a_curve() -> None:
    world = a_world()
    a_job(world, "waits", 0.0)
    assert tries(world, declared(OUT, (1, 310.0))) == frozenset()


def test_jobs_that_could_not_leave_it_again_or_have_a_target_or_tried_it_before_do_not_try() -> None:
    world = a_world()
    a_job(world, "never", 0.0, resize=ResizePolicy.NEVER)
    a_job(world, "target", 0.0, target_completion=after(world.now, 3600.0))
    a_job(world, "suspended", 0.0, suspend=True)
    failed = a_job(world, "failed", 0.0)
    runs(world, "failed", "outofcore")
    allocation = world.jobs[failed.id].allocation
    assert allocation is not None
    record = RunRecord(1, RunOutcome.STOPPED, allocation.option, allocation.placements, world.now, world.now, "")
    world.jobs[failed.id] = replace(failed, records=(record,))
    assert tries(world) == frozenset()
