"""How often each pool is asked about, what stays when a cloud fails, and when the loop is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from charterer.clouds.fake import FakeGroup
from charterer.controller.surveys import SurveyPace, Surveys, in_motion
from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.order import Ask, Reply
from charterer.domain.pool import Instance, InstanceState, Pool, Quote, Survey
from charterer.domain.rental import RentalPhase
from charterer.domain.time import Instant
from charterer.providers.accounts import Accounts
from charterer.providers.errors import CloudUnreachable, ProviderError
from charterer.providers.provider import NONE_KNOWN, Drained, KnownMachines, PreflightFinding
from tests.factory.pools import COUNTED, LAG, OFFERING, PRICE, fake_group, instance, pool, rental
from tests.virtual_time import clock, run_for, run_in_virtual_time

QUIET, MOVING, QUOTED = 15.0, 1.0, 60.0
NEAR, FAR = "http://near", "http://far"


def pool_at(endpoint: str, name: str) -> Pool:
    return replace(pool(), id=PoolId(name), cloud=FakeGroup(endpoint, name))


class Cloud:
    """A provider that remembers when it was asked; ``target``, ``machines`` and ``fails`` are what it answers with.

    ``ahead``: seconds by which its clock is wrong.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.target = 0
        self.machines: tuple[Instance, ...] = ()
        self.fails = False
        self.ahead = 0.0
        self.traits = COUNTED
        self.asked: list[tuple[float, frozenset[PoolId]]] = []
        self.quoted: list[float] = []

    async def survey(
        self, pools: Sequence[Pool], known: KnownMachines = NONE_KNOWN
    ) -> Mapping[PoolId, Survey | ProviderError]:
        asked = clock()
        self.asked.append((asked, frozenset(pool.id for pool in pools)))
        await asyncio.sleep(self.seconds)
        if self.fails:
            return {pool.id: CloudUnreachable(pool.id, "GET", "Refused", "no answer") for pool in pools}
        at = Instant(round((asked + self.ahead) * 1e6))
        told = (self.target, frozenset[OrderToken](), self.machines, (), (), at, self.traits, OFFERING)
        return {pool.id: Survey(pool.id, *told) for pool in pools}

    async def quote(self, pool: Pool) -> Quote:
        self.quoted.append(clock())
        if self.fails:
            raise CloudUnreachable(pool.id, "GET price", "Refused", "no answer")
        return Quote(PRICE, PRICE, 60, "cloud", Instant(0))

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        raise AssertionError("surveys change nothing")

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        raise AssertionError("surveys change nothing")

    async def withdraw(self, pool: Pool, orders: Sequence[OrderToken], keep: int) -> None:
        raise AssertionError("surveys change nothing")

    async def renew(self, pools: Sequence[Pool]) -> None:
        raise AssertionError("surveys change nothing")

    async def preflight(self, pool: Pool) -> Sequence[PreflightFinding]:
        raise AssertionError("nobody asked")

    async def close(self) -> None:
        """Nothing is open."""


class Sky:
    """Two clouds with their pools, and the surveys of them."""

    def __init__(self, *pools: Pool) -> None:
        self.clouds = {NEAR: Cloud(), FAR: Cloud()}
        self.pools = {pool.id: pool for pool in pools}
        self.moving: set[PoolId] = set()
        self.changes: list[float] = []
        self.surveys = Surveys(
            Accounts({}, adapter=lambda pool, environ: self.clouds[fake_group(pool).endpoint]),
            lambda: self.pools,
            lambda: frozenset(self.moving),
            lambda: NONE_KNOWN,
            lambda: self.changes.append(clock()),
            SurveyPace(QUIET, MOVING, QUOTED),
        )

    @property
    def near(self) -> Cloud:
        return self.clouds[NEAR]

    def later(self, seconds: float, do: Callable[[], object]) -> None:
        asyncio.get_running_loop().call_later(seconds, do)

    async def passes(self, seconds: float) -> None:
        await run_for(seconds, self.surveys.run())


A, B, C = pool_at(NEAR, "a"), pool_at(NEAR, "b"), pool_at(FAR, "c")


def test_a_quiet_pool_is_asked_about_four_times_a_minute_and_its_price_once() -> None:
    async def main() -> None:
        sky = Sky(A)
        began = clock()
        await sky.passes(121.0)
        assert [at - began for at, _ in sky.near.asked] == pytest.approx([QUIET * turn for turn in range(9)])
        assert [at - began for at in sky.near.quoted] == pytest.approx([0.0, QUOTED, 2 * QUOTED])

    run_in_virtual_time(main())


def test_a_cloud_whose_clock_was_ahead_once_is_believed_again() -> None:
    async def main() -> None:
        sky = Sky(A)
        sky.near.ahead = 1e6
        sky.later(QUIET / 2, lambda: setattr(sky.near, "ahead", 0.0))
        sky.later(QUIET / 2, lambda: setattr(sky.near, "target", 3))
        await sky.passes(QUIET + 1)
        assert sky.surveys.latest[A.id].target == 3

    run_in_virtual_time(main())


def test_a_pool_in_motion_is_asked_about_every_second_as_soon_as_it_moves() -> None:
    async def main() -> None:
        sky = Sky(A, B)

        def moves() -> None:
            sky.moving.add(A.id)
            sky.surveys.look_again()

        sky.later(5.0, moves)
        began = clock()
        await sky.passes(9.5)
        assert [(round(at - began), pools) for at, pools in sky.near.asked] == [
            (0, frozenset({A.id, B.id})),
            *((second, frozenset({A.id})) for second in (5, 6, 7)),
            (8, frozenset({A.id, B.id})),  # half of the quiet pool's time has passed
            (9, frozenset({A.id})),
        ]

    run_in_virtual_time(main())


def test_a_pool_in_motion_whose_cloud_lists_a_minute_late_is_asked_about_every_five_seconds() -> None:
    """Twelve times within the lag; and never more seldom than a quiet pool."""

    async def main() -> None:
        sky = Sky(A)
        sky.moving.add(A.id)
        sky.near.traits = replace(COUNTED, lag_seconds=60.0)
        began = clock()
        await sky.passes(16.0)
        assert [round(at - began) for at, _ in sky.near.asked] == [0, 5, 10, 15]
        sky.near.traits = replace(COUNTED, lag_seconds=3600.0)
        await sky.passes(5.0)
        sky.near.asked.clear()
        await sky.passes(46.0)
        assert len(sky.near.asked) == 46 // QUIET

    run_in_virtual_time(main())


def test_pools_of_one_account_are_asked_about_in_one_call() -> None:
    async def main() -> None:
        sky = Sky(A, B, C)
        await sky.passes(1.0)
        assert [pools for _, pools in sky.near.asked] == [{A.id, B.id}]
        assert [pools for _, pools in sky.clouds[FAR].asked] == [{C.id}]

    run_in_virtual_time(main())


def test_pools_of_one_account_that_were_asked_about_at_different_times_are_soon_asked_about_together() -> None:
    """Twenty pools in motion, each in a call of its own, would be twenty calls a second for the same list."""

    async def main() -> None:
        sky = Sky(A, B)
        sky.moving |= {A.id, B.id}
        running = asyncio.create_task(sky.surveys.run())
        await asyncio.sleep(0.5)
        await sky.surveys.refresh(A.id)
        sky.near.asked.clear()
        await asyncio.sleep(5.0)
        assert {pools for _, pools in sky.near.asked} == {frozenset({A.id, B.id})}
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    ("phase", "moves"), [(phase, phase not in (RentalPhase.READY, RentalPhase.ENDED)) for phase in RentalPhase]
)
def test_a_pool_is_in_motion_while_a_machine_of_it_starts_or_ends(phase: RentalPhase, moves: bool) -> None:
    """Not for the hour for which a cloud lists what has ended."""
    assert in_motion(rental(phase=phase)) is moves


def test_a_cloud_that_answers_slowly_holds_up_no_other_and_is_not_asked_again_meanwhile() -> None:
    async def main() -> None:
        sky = Sky(A, C)
        sky.clouds[FAR].seconds = 40.0
        await sky.passes(46.0)
        assert len(sky.near.asked) == 4
        assert len(sky.clouds[FAR].asked) == 2

    run_in_virtual_time(main())


def test_the_loop_hears_of_an_answer_that_differs_and_of_every_answer_about_a_pool_in_motion() -> None:
    async def main() -> None:
        sky = Sky(A)
        await sky.passes(44.0)
        assert len(sky.changes) == 1  # the first answer
        sky.near.target = 3
        await sky.passes(16.0)
        assert len(sky.changes) == 2
        sky.moving.add(A.id)
        await sky.passes(10.0)
        assert len(sky.changes) >= 10

    run_in_virtual_time(main())


def test_a_cloud_that_fails_leaves_the_last_answer_and_its_error_until_it_answers_again() -> None:
    async def main() -> None:
        sky = Sky(A)
        sky.near.target = 2
        await sky.passes(1.0)
        sky.near.fails = True
        await sky.passes(20.0)
        assert sky.surveys.latest[A.id].target == 2
        assert isinstance(sky.surveys.errors[A.id], CloudUnreachable)
        assert len(sky.changes) == 2
        sky.near.fails = False
        await sky.passes(20.0)
        assert not sky.surveys.errors

    run_in_virtual_time(main())


def test_a_cloud_that_answers_neither_question_is_in_the_log_once_until_it_answers_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        sky = Sky(A)
        sky.near.fails = True
        await sky.passes(5 * QUIET)
        assert len(caplog.records) == 1
        sky.near.fails = False
        await sky.passes(2 * QUIET)
        sky.near.fails = True
        await sky.passes(5 * QUIET)
        assert len(caplog.records) == 2

    run_in_virtual_time(run())


def test_a_refresh_asks_at_once_and_a_slower_older_answer_does_not_replace_it() -> None:
    async def main() -> None:
        sky = Sky(A)
        sky.near.seconds, sky.near.target = 10.0, 1
        running = asyncio.create_task(sky.surveys.run())
        await asyncio.sleep(1.0)
        sky.near.seconds = 0.0
        await sky.surveys.refresh(A.id)
        newer = sky.surveys.latest[A.id].asked
        await asyncio.sleep(12.0)
        assert sky.surveys.latest[A.id].asked == newer
        assert len(sky.near.asked) == 2
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_in_virtual_time(main())


def test_an_instance_that_the_cloud_was_told_to_end_counts_as_ending_for_as_long_as_lists_may_lag() -> None:
    """Otherwise it would be ended again with every list that does not show it yet."""

    async def main() -> None:
        sky = Sky(A)
        sky.near.machines = (instance("one"), instance("two"))
        sky.surveys.note_end(A, InstanceId("one"))

        async def states() -> list[InstanceState]:
            await sky.surveys.refresh(A.id)
            return [machine.state for machine in sky.surveys.latest[A.id].instances]

        assert await states() == [InstanceState.STOPPING, InstanceState.RUNNING]
        await asyncio.sleep(LAG + 1)
        assert await states() == [InstanceState.RUNNING, InstanceState.RUNNING]

    run_in_virtual_time(main())


def test_what_is_known_of_a_pool_goes_with_it() -> None:
    async def main() -> None:
        sky = Sky(A, B)
        await sky.passes(1.0)
        del sky.pools[B.id]
        sky.surveys.look_again()
        await sky.passes(1.0)
        for known in (sky.surveys.latest, sky.surveys.quotes):
            assert known.keys() == {A.id}
        await sky.surveys.refresh(B.id)
        assert len(sky.near.asked) == 1

    run_in_virtual_time(main())
