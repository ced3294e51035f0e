"""What holds for shares of one budget's money, whoever asks for how much."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.budget import NO_SHARE, JobShare, parts_of, share_of
from charterer.domain.ids import BudgetId
from charterer.domain.job import Job
from charterer.domain.plan import Plan, ReasonCode
from charterer.domain.profile import PowerLaw
from charterer.policy import plan
from charterer.policy.budgets.solution import divided
from charterer.policy.planner import solve_budgets
from tests import lanes
from tests.worlds import World

RESEARCH = BudgetId("research")
USERS = ("ann", "bob", "cy")
_ALIKE = 1e-9


@dataclass(frozen=True)
class Wants:
    """A share whose jobs take up to ``wanted`` of the money, and were offered ``offered``."""

    wanted: float
    offered: float

    @property
    def content(self) -> float | None:
        return self.wanted if self.wanted < self.offered else None

    @property
    def takes(self) -> float:
        return min(self.wanted, self.offered)


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.floats(0.01, 1.0), min_size=1),
    st.lists(st.floats(0.0, 2.0), min_size=6, max_size=6),
)
def test_a_share_has_its_part_or_all_that_it_wants_and_nothing_is_left_while_one_wants_more(
    sizes: dict[str, float], wants: list[float]
) -> None:
    whole = sum(sizes.values())
    parts = {name: size / whole for name, size in sizes.items()}
    wanted = dict(zip("abcdef", wants, strict=True))
    found = divided(parts, lambda name, offered: Wants(wanted[name], offered))
    assert found.keys() == parts.keys()
    for name, share in found.items():
        assert share.takes >= min(wanted[name], parts[name]) - _ALIKE
    taken = sum(share.takes for share in found.values())
    assert taken <= 1.0 + _ALIKE
    if any(share.takes < wanted[name] - _ALIKE for name, share in found.items()):
        assert taken >= 1.0 - _ALIKE
    short = {name: share.offered / parts[name] for name, share in found.items() if share.content is None}
    assert max(short.values(), default=0.0) <= min(short.values(), default=0.0) + 1e-6, "in proportion to the parts"


JOBS = st.lists(
    st.tuples(
        st.sampled_from([*USERS, "guest"]),
        st.sampled_from([1, 4, 8, (1, 4, 32)]),
        st.sampled_from([0.5, 4.0, 30.0]),
        st.integers(1, 12),
    ),
    min_size=2,
    max_size=8,
)
"""Whose, GPUs, hours, and how many alike."""
PARTS = st.sampled_from([(0.5, 0.5, 0.0), (0.25, 0.25, 0.5), (0.1, 0.6, 0.1), (0.01, 0.01, 0.01)])


def _world(amount: str, parts: tuple[float, ...], price: str) -> World:
    world = World()
    budget = world.budget(amount=amount)
    shares = tuple([JobShare(user, part, user=user) for user, part in zip(USERS, parts, strict=True) if part])
    world.budgets[RESEARCH] = replace(budget, job_shares=shares)
    world.pool("a100", gpus=8, price=price)
    world.profile("sft", PowerLaw(0.9, 1.0), work_hours=20)
    return world


def _submit(world: World, drawn: list[tuple[str, int | tuple[int, int, int], float, int]], turn: int) -> None:
    shares = world.budgets[RESEARCH].job_shares
    for at, (user, gpus, hours, number) in enumerate(drawn):
        for each in range(number):
            profile = "sft" if isinstance(gpus, tuple) else None
            made = world.job(f"{user}-{turn}-{at}-{each}", gpus=gpus, profile=profile, hours_left=hours)
            world.jobs[made.id] = replace(made, share=share_of(shares, user, made.namespace, {}))


def _hourly(jobs: list[Job]) -> float:
    return sum(job.allocation.option.price.dollars_per_hour for job in jobs if job.allocation is not None)


def _wait_for_money(decided: Plan) -> set[str]:
    return {name for name, verdict in decided.jobs.items() if verdict.reason.code is ReasonCode.WAITING_FOR_BUDGET}


@settings(max_examples=lanes.examples(60), deadline=None)
@given(
    st.lists(JOBS, min_size=1, max_size=3),
    st.sampled_from(["1440", "8000", "60000"]),
    PARTS,
    st.sampled_from(["4", "16"]),
)
def test_nobody_waits_for_money_or_is_narrow_for_others_below_its_share(
    turns: list[list[tuple[str, int | tuple[int, int, int], float, int]]],
    amount: str,
    parts: tuple[float, ...],
    price: str,
) -> None:
    """In each plan, whatever others have begun before and ask for now.

    A share has at least its part of what may be spent, or all that makes its jobs faster. No job of it waits for
    money while what its share's jobs cost, with the job, is below that.
    """
    world = _world(amount, parts, price)
    for number, drawn in enumerate(turns):
        _submit(world, drawn, number)
        for _ in range(2):
            snapshot = world.snapshot()
            (solution,) = solve_budgets(snapshot)
            decided = plan(snapshot)
            declared = parts_of(world.budgets[RESEARCH].job_shares)
            for name, share in solution.shares.items():
                assert share.surplus or share.allowed >= declared[name] * solution.allowed - _ALIKE
            waiting = _wait_for_money(decided)
            for name, share in solution.shares.items():
                of_share = [job for job in snapshot.jobs.values() if job.share == name]
                refused = [job for job in of_share if job.id in waiting]
                if share.feasible:
                    assert not refused
                elif refused:
                    least = min(decided.jobs[job.id].option.price.dollars_per_hour for job in refused)  # type: ignore[union-attr]
                    starts = [job for job in of_share if job.id not in waiting]
                    wanted = sum(
                        option.price.dollars_per_hour
                        for job in starts
                        if (option := decided.jobs[job.id].option) is not None
                    )
                    assert wanted + least > declared[name] * solution.allowed * 3600.0 - _ALIKE
            world.carry_out(decided)
            world.everything_starts()
            world.everything_trains(900.0)


@settings(max_examples=lanes.examples(40), deadline=None)
@given(JOBS, st.sampled_from(["1440", "60000"]), st.integers(1, 40))
def test_jobs_of_others_leave_a_share_what_it_would_have_with_its_part_alone(
    drawn: list[tuple[str, int | tuple[int, int, int], float, int]], amount: str, flood: int
) -> None:
    """More jobs of one user never lower what another one's share may spend below its part."""
    world = _world(amount, (0.5, 0.5, 0.0), "16")
    _submit(world, drawn, 0)
    _submit(world, [("bob", 8, 30.0, flood)], 1)
    (solution,) = solve_budgets(world.snapshot())
    for name in ("ann", NO_SHARE):
        share = solution.shares.get(name)
        part = parts_of(world.budgets[RESEARCH].job_shares)[name]
        if share is not None:
            assert share.surplus or share.allowed >= part * solution.allowed - _ALIKE
    assert sum(share.planned for share in solution.shares.values() if share.surplus) <= solution.allowed + _ALIKE
