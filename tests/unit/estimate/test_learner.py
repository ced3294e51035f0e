"""The learner as a whole: reports in, curves with origins out; copies, bad input, probes and new GPU types."""

from __future__ import annotations

import copy
import math
import random
from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.ids import ClassId
from charterer.domain.profile import BatchTerms, CurveSource, ThroughputTable
from charterer.estimate.curves import MOST_PHASES
from charterer.estimate.learned import Learned
from charterer.estimate.learner import Learner
from charterer.estimate.priors import SHEET_POWER
from charterer.gpu_types import relative_speeds
from tests.unit.estimate.trainers import NODE_GPUS, UNKNOWNS, WIDTHS, Trainer

RESNET = ClassId("team", "resnet")


def learner(*trainers: Trainer, model_misfit: float = 0.0) -> Learner:
    return Learner(
        {trainer.class_id: trainer.terms for trainer in trainers}, {"A": NODE_GPUS, "B": NODE_GPUS}, model_misfit
    )


def told(trainer: Trainer, widths: tuple[int, ...] = WIDTHS, number: int = 300) -> Learner:
    known = learner(trainer)
    for report in trainer.reports(widths, number):
        known.report(report)
    return known


def values(learned: Learned, phase: int = 0) -> list[float]:
    form = learned.phases[phase].curves[0].form
    assert isinstance(form, ThroughputTable)
    return [value for _, value in form.points]


def test_the_planner_gets_phases_of_tables_that_end_at_one() -> None:
    learned = told(Trainer()).profile(RESNET, WIDTHS)
    assert 2 <= len(learned.phases) <= MOST_PHASES
    assert learned.phases[-1].until == 1.0
    for phase in learned.phases:
        (curve,) = phase.curves
        assert curve.gpu_type == "A"
        assert isinstance(curve.form, ThroughputTable)
        assert [gpus for gpus, _ in curve.form.points] == list(WIDTHS)


def test_goodput_of_every_width_and_phase_is_within_ten_percent_of_the_truth() -> None:
    trainer = Trainer()
    learned = told(trainer).profile(RESNET, WIDTHS)
    begin = 0.0
    for at, stretch in enumerate(learned.learned_phases):
        middle = (begin + stretch.until) / 2.0
        for entry in stretch.entries:
            truth = trainer.goodput(entry.gpus, entry.batch, middle)
            assert entry.goodput == pytest.approx(truth, rel=0.1), (at, entry)
        begin = stretch.until


def test_speed_grows_over_the_phases_as_the_noise_does() -> None:
    learned = told(Trainer()).profile(RESNET, WIDTHS)
    assert values(learned, -1)[-1] / values(learned, -1)[0] > 1.5 * values(learned)[-1] / values(learned)[0]


def test_every_number_says_where_it_comes_from() -> None:
    trainer = Trainer()
    learned = told(trainer, (1, 2, 4)).profile(RESNET, WIDTHS)
    sources = {entry.gpus: entry.source for _, entry in learned.entries}
    assert {gpus for gpus, source in sources.items() if source is CurveSource.MEASURED} == {1, 2, 4}
    assert {gpus for gpus, source in sources.items() if source is CurveSource.EXTRAPOLATED} == {8, 16, 32}
    for _, entry in learned.entries:
        assert entry.low <= entry.goodput <= entry.high
        assert bool(entry.reports) == (entry.source is CurveSource.MEASURED)
    never = learner(trainer).profile(RESNET, WIDTHS)
    assert {entry.source for _, entry in never.entries} == {CurveSource.PRIOR}


def test_intervals_are_wider_where_nothing_ran() -> None:
    first = told(Trainer(), (1, 2, 4)).profile(RESNET, WIDTHS).learned_phases[0]
    width = {entry.gpus: math.log(entry.high / entry.low) for entry in first.entries}
    assert width[4] < 0.5 * width[8]


def test_more_reports_make_surer() -> None:
    trainer = Trainer()
    few, many = (told(trainer, WIDTHS, number).profile(RESNET, (4,)) for number in (12, 1000))
    spread = [math.log(learned.entry(0, 4).high / learned.entry(0, 4).low) for learned in (few, many)]
    assert spread[1] < 0.5 * spread[0]


def test_the_batch_follows_the_noise_within_a_phase() -> None:
    trainer = Trainer(noise=lambda done: 1.0 if done < 0.5 else 300.0)
    known = told(trainer, WIDTHS, 600)
    early, late = (known.batch(RESNET, "A", 8, done) for done in (0.1, 0.9))
    assert early < late
    learned = known.profile(RESNET, WIDTHS)
    assert learned.batch(learned.phase(0.9), 8) == pytest.approx(late, rel=0.3)


def test_a_jump_of_the_noise_is_followed_within_five_reports() -> None:
    trainer = Trainer(noise=lambda done: 1.0 if done < 0.5 else 300.0)
    known, draw = learner(trainer), random.Random(1)
    for number in range(400):
        known.report(trainer.report(4, draw.choice((64, 128, 512)), 0.49 * number / 400, draw))
    calm = known.batch(RESNET, "A", 4, 0.49)
    for _ in range(5):
        known.report(trainer.report(4, calm, 0.51, draw))
    assert known.batch(RESNET, "A", 4, 0.51) > 3 * calm


def test_another_class_starts_from_what_the_first_one_showed() -> None:
    poor = tuple(value + 2.0 * (at == 4) for at, value in enumerate(UNKNOWNS))
    first = [Trainer(f"team/{name}", poor) for name in ("a", "b", "c", "d")]
    fresh = Trainer("team/new", poor)
    informed, naive = learner(*first, fresh), learner(fresh)
    for trainer in first:
        for report in trainer.reports(WIDTHS, 200):
            informed.report(report)
        informed.profile(ClassId("team", trainer.name), WIDTHS)
    for known in (informed, naive):
        for report in fresh.reports((1, 2, 4), 60):
            known.report(report)
    off = []
    for known in (informed, naive):
        entry = known.profile(ClassId("team", fresh.name), WIDTHS).entry(-1, 16)
        off.append(abs(math.log(entry.goodput / fresh.goodput(16, entry.batch, 0.97))))
    assert off[0] < 0.5 * off[1]


def test_another_gpu_type_is_scaled_by_the_classes_that_ran_on_both() -> None:
    slower = tuple(value + (math.log(3.0) if at == 0 else 0.0) for at, value in enumerate(UNKNOWNS))
    both = [Trainer(f"team/{name}") for name in ("a", "b", "c")]
    fresh = Trainer("team/new")
    known = learner(*both, fresh)
    for trainer in both:
        for report in (
            *trainer.reports(WIDTHS, 150),
            *replace(trainer, unknowns=slower, gpu_type="B").reports(WIDTHS, 150),
        ):
            known.report(report)
        known.profile(ClassId("team", trainer.name), WIDTHS)
    for report in fresh.reports(WIDTHS, 150):
        known.report(report)
    learned = known.profile(ClassId("team", fresh.name), WIDTHS, ("A", "B"))
    there = learned.entry(0, 4, "B")
    assert there.source is CurveSource.EXTRAPOLATED
    assert learned.entry(0, 4, "A").goodput / there.goodput == pytest.approx(3.0, rel=0.4)


def test_a_type_that_data_sheets_compare_tells_more_of_another_than_one_on_which_the_class_ran_more_often() -> None:
    slower = tuple(value + (math.log(3.0) if at == 0 else 0.0) for at, value in enumerate(UNKNOWNS))
    on_t4, on_new = Trainer(gpu_type="Tesla-T4"), Trainer(unknowns=slower, gpu_type="NVIDIA-R300")
    types = ("Tesla-T4", "NVIDIA-R300", "NVIDIA-A100")
    known = Learner({on_t4.class_id: on_t4.terms}, dict.fromkeys(types, NODE_GPUS))
    for report in (*on_t4.reports(WIDTHS, 100), *on_new.reports(WIDTHS, 150)):
        known.report(report)
    learned = known.profile(RESNET, WIDTHS, types)
    t4, _, a100 = (learned.entry(0, 4, each).goodput for each in types)
    speeds = relative_speeds(types)
    assert a100 / t4 == pytest.approx((1.0 / speeds["Tesla-T4"].estimate) ** SHEET_POWER, rel=0.2)


def test_a_quirk_that_all_classes_meet_is_expected_of_the_next() -> None:
    others = [Trainer(f"team/{name}") for name in ("a", "b", "c", "d")]
    fresh = Trainer("team/new")
    known = learner(*others, fresh)
    for _ in range(3):
        for trainer in others:
            for report in trainer.reports(WIDTHS, 100):
                slow = 1.4 if report.gpus == 8 else 1.0
                known.report(replace(report, step_seconds=report.step_seconds * slow))
            known.profile(ClassId("team", trainer.name), WIDTHS)
    for report in fresh.reports((1, 2, 4, 16), 200):
        known.report(report)
    entry = known.profile(ClassId("team", fresh.name), (8,)).entry(-1, 8)
    truth = fresh.goodput(8, entry.batch, 0.97)
    assert entry.goodput < 0.92 * truth


def test_a_true_dip_is_believed_only_where_curves_may_depart_from_concave() -> None:
    trainer = Trainer(noise=lambda _: 100.0)
    strict, free = learner(trainer), learner(trainer, model_misfit=0.1)
    for known in (strict, free):
        for report in trainer.reports(WIDTHS, 600):
            slow = 1.6 if report.gpus == 8 else 1.0
            known.report(replace(report, step_seconds=report.step_seconds * slow))
    smooth, bent = (values(known.profile(RESNET, WIDTHS)) for known in (strict, free))
    at = WIDTHS.index(8)
    assert (smooth[at] - smooth[at - 1]) / 4 >= (smooth[at + 1] - smooth[at]) / 8 - 1e-9
    assert (bent[at] - bent[at - 1]) / 4 < (bent[at + 1] - bent[at]) / 8


def test_copies_learn_apart_and_alike() -> None:
    known = told(Trainer())
    before = known.profile(RESNET, WIDTHS)
    other = copy.deepcopy(known)
    for report in Trainer().reports((2,), 200, 9):
        other.report(replace(report, step_seconds=report.step_seconds * 3.0))
    assert other.profile(RESNET, WIDTHS) != before
    assert known.profile(RESNET, WIDTHS) == before


def test_the_same_reports_give_the_same_profile() -> None:
    assert told(Trainer()).profile(RESNET, WIDTHS) == told(Trainer()).profile(RESNET, WIDTHS)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("step_seconds", math.nan, "seconds per step nan"),
        ("step_seconds", 0.0, "seconds per step 0.0"),
        ("fraction", 1.2, "fraction 1.2"),
        ("nodes", 9, "1 GPUs on 9 nodes"),
        ("batch", 0, "batch 0"),
    ],
)
def test_a_report_that_cannot_be_is_refused_and_teaches_nothing(field: str, value: float, says: str) -> None:
    trainer = Trainer()
    known = learner(trainer)
    before = copy.deepcopy(known.state(RESNET))
    change: dict[str, Any] = {field: value}
    with pytest.raises(ValueError, match=says):
        known.report(replace(trainer.report(1, 64, 0.5), **change))
    assert known.state(RESNET) == before


def test_a_report_without_gradients_teaches_speed_alone() -> None:
    trainer = Trainer()
    known = learner(trainer)
    known.report(replace(trainer.report(1, 64, 0.5), grad_sqr=None, grad_var=None))
    known.report(replace(trainer.report(1, 64, 0.5), grad_sqr=math.nan))
    learned = known.profile(RESNET, WIDTHS)
    assert learned.reports == 2
    assert sum(phase.noise_reports for phase in learned.learned_phases) == 0.0


def test_what_is_not_declared_or_not_offered_is_named() -> None:
    known = told(Trainer())
    with pytest.raises(ValueError, match="class team/none is not declared"):
        known.profile(ClassId("team", "none"), WIDTHS)
    with pytest.raises(ValueError, match=r"widths \[4, 2\]"):
        known.profile(RESNET, (4, 2))
    with pytest.raises(ValueError, match="nothing is known of 3 GPUs of any type: ask for one of"):
        known.profile(RESNET, WIDTHS).batch(0, 3)
    with pytest.raises(ValueError, match="own batch 64 must lie between 1 and the largest total batch 32"):
        BatchTerms(64, 32, 16)


def test_other_terms_of_a_class_drop_what_was_learned_under_the_old() -> None:
    known = told(Trainer())
    known.declare(RESNET, Trainer().terms)
    assert known.profile(RESNET, WIDTHS).reports == 300
    known.declare(RESNET, replace(Trainer().terms, own=32))
    assert known.profile(RESNET, WIDTHS).reports == 0


def test_where_no_gpu_type_is_known_there_is_no_curve() -> None:
    assert Learner({RESNET: Trainer().terms}).profile(RESNET, WIDTHS).phases[-1].curves == ()


def test_sizes_of_a_new_class_are_the_others() -> None:
    other = Trainer("team/other")
    known = learner(Trainer(), other)
    for _ in range(200):
        known.completed(ClassId("team", other.name), 1000.0)
    assert known.work(RESNET).value == pytest.approx(1000.0)


def test_a_width_is_probed_at_both_ends_of_a_single_pass_before_its_best_batch_is_chosen() -> None:
    trainer = Trainer(noise=lambda done: 300.0)
    known = learner(trainer)
    asked = []
    for _ in range(3):
        asked.append(known.batch(RESNET, "A", 4, 0.1))
        known.report(trainer.report(4, asked[-1], 0.1))
    assert asked[:2] == [64, 4 * 128]
    assert asked[2] > 256


def test_a_trainer_that_rounds_to_other_batches_is_not_probed_for_ever() -> None:
    trainer = Trainer(noise=lambda done: 300.0)
    known = learner(trainer)
    for _ in range(4):
        known.report(trainer.report(4, 80, 0.1))
    assert known.batch(RESNET, "A", 4, 0.1) > 80
