"""No pair is made of which one loses, whatever jobs, prices and speeds are."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from charterer.domain.ids import ClassId, JobId
from charterer.domain.profile import PairSpeed, Phase, Profile
from charterer.policy.options.pair_speeds import LEAST_PART, pair_speeds
from charterer.policy.outlook.partners import LEAST_SAVING, Sharer, Terms, match_of

A, B = ClassId("team", "a"), ClassId("team", "b")
PLACE = "V100-mps-2"
PARTS = st.floats(0.01, 1.0)


def profile(own: ClassId, beside: ClassId, kept: float | None) -> Profile:
    pairs = () if kept is None else (PairSpeed(PLACE, beside, kept, 1),)
    return Profile(own, 1, (Phase(1.0, ()),), None, None, 30.0, pairs=pairs)


def sharer(class_id: ClassId, worth: float, price: float, elsewhere: float, least: float) -> Sharer:
    """``elsewhere``: what its work costs on whole GPUs as a part of what it costs on this one, alone."""
    alone = (worth + price) * elsewhere
    return Sharer(JobId(class_id.name), 3600.0, Terms(class_id, worth, alone, 0.7, least))


@example(0.3, 1.0, (0.12, 0.12), 1.0, (1.0, 1.0), 0.0)
@given(
    PARTS,
    st.none() | PARTS,
    st.tuples(st.floats(0.0, 2.0), st.floats(0.0, 2.0)),
    st.floats(0.01, 100.0),
    st.tuples(st.floats(0.5, 1.0), st.floats(0.5, 1.0)),
    st.floats(0.0, 0.6),
)
def test_each_of_a_pair_gains_and_keeps_what_it_must(
    kept: float,
    other: float | None,
    worths: tuple[float, float],
    price: float,
    elsewhere: tuple[float, float],
    least: float,
) -> None:
    speeds = pair_speeds(PLACE, [profile(A, B, kept), profile(B, A, other)])
    first, second = (
        sharer(name, worth, price, part, least) for name, worth, part in zip((A, B), worths, elsewhere, strict=True)
    )
    pair = match_of(first.terms, second.terms, speeds, price)
    if pair.saving is None:
        return
    parts = pair.kept.kept, pair.partner_kept.kept
    for each, part in zip((first.terms, second.terms), parts, strict=True):
        paid = each.worth + price * part / sum(parts)
        assert paid / part < each.alone  # for an hour of what it does alone there
        assert part >= least
    apart = sum(each.alone * part for each, part in zip((first.terms, second.terms), parts, strict=True))
    together = sum(worths) + price
    assert together <= apart * (1.0 - LEAST_SAVING) + 1e-9
    seconds = min(3600.0 / part for part in parts)
    assert pair.saved(first, second) == pytest.approx((apart - together) * seconds, rel=1e-6, abs=1e-6)


@given(PARTS, st.floats(0.0, 20.0))
def test_two_jobs_of_one_gpu_are_a_pair_where_both_keep_more_than_the_break_even(kept: float, rate: float) -> None:
    """2k > 1 + θ/(θ + c), and 2 % are saved."""
    speeds = pair_speeds(PLACE, [profile(A, A, kept)])
    one = sharer(A, rate, 1.0, 1.0, 0.0)
    saves = 2.0 * kept * (1.0 - LEAST_SAVING) * (rate + 1.0) - (2.0 * rate + 1.0)
    if abs(saves) > 1e-9:
        assert (match_of(one.terms, one.terms, speeds, 1.0).saving is not None) == (saves > 0.0)


VICTIM = ClassId("victim", "v")
TOLD = st.lists(st.tuples(st.sampled_from(("a", "b")), st.floats(1e-9, 1.0), st.floats(1e-9, 1.0)), max_size=5)


@given(TOLD, st.lists(st.tuples(st.floats(1e-9, 1.0), st.floats(1e-9, 1.0)), min_size=1, max_size=6))
@example([], [(1e-8, 1.0)] * 6)
def test_no_tenant_keeps_others_from_a_class(
    honest: list[tuple[str, float, float]], lies: list[tuple[float, float]]
) -> None:
    """What is reported beside the class and beside another one, by classes of several namespaces and by one's lies."""

    def told(name: ClassId, beside_it: float, beside_another: float) -> Profile:
        pairs = PairSpeed(PLACE, VICTIM, beside_it, 9), PairSpeed(PLACE, A, beside_another, 9)
        return Profile(name, 1, (Phase(1.0, ()),), None, None, 30.0, pairs=pairs)

    truth = [told(ClassId(tenant, f"c{n}"), *parts) for n, (tenant, *parts) in enumerate(honest)]
    lying = [told(ClassId("evil", f"c{n}"), *parts) for n, parts in enumerate(lies)]
    before, after = (pair_speeds(PLACE, known).kept(B, VICTIM, 0.7).kept for known in (truth, [*truth, *lying]))
    assert after >= before / 2.0**0.5 - 1e-9
    assert pair_speeds(PLACE, lying).kept(lying[0].id, VICTIM, 0.7).kept >= LEAST_PART
