"""Asking the clouds: the last good survey and quote of each pool, and the error where there is none.

A pool in motion (a rental is being asked for, started or ended) is asked often, a quiet one rarely. When a call fails,
the last good answer stays: the plan goes on with it, and the pool's condition says since when the cloud is unreachable.
Accounts are asked separately, so that a cloud that answers slowly, or never, holds up no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from charterer.cluster import kinds
from charterer.cluster.store import Store
from charterer.controller.clock import Reading
from charterer.controller.known_pools import known_pools
from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.order import Ask, Refusal, Reply
from charterer.domain.pool import Cloud, Instance, InstanceState, Pool, Quote, Survey
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.time import Instant
from charterer.providers.accounts import Accounts
from charterer.providers.errors import ProviderError
from charterer.providers.guarded import Guarded
from charterer.providers.provider import KnownMachines

_log = logging.getLogger(__name__)

_REFUSAL_SECONDS = 600.0
"""Seconds for which an order's refusal is remembered: it is on record in the pool's status long before."""
_MOVING = frozenset({RentalPhase.REQUESTED, RentalPhase.STARTING, RentalPhase.DRAINING})
_EARLY = 0.5
"""Fraction of a pool's interval that must have passed for it to be asked about together with others of its account."""
_NO_TIME = Instant(0)
_NEVER = float("-inf")
"""Seconds of the clock at which a pool that was never asked counts as asked."""


def pools_in(store: Store) -> Mapping[PoolId, Pool]:
    """The pools there are, and those of which only rentals are left."""
    pools = store.view(kinds.GPU_POOLS)
    unread = {key.name for key in pools.problems}
    return known_pools(pools.objects, store.view(kinds.GPU_RENTALS).objects, unread)


def pools_in_motion(store: Store) -> frozenset[PoolId]:
    """Pools with a rental that is in motion."""
    return frozenset(rental.pool for rental in store.view(kinds.GPU_RENTALS).objects.values() if in_motion(rental))


def machines_on_record(store: Store) -> KnownMachines:
    """The machines of rentals that have not ended, by pool."""
    known: dict[PoolId, list[InstanceId]] = {}
    for rental in store.view(kinds.GPU_RENTALS).objects.values():
        if rental.instance is not None and rental.phase is not RentalPhase.ENDED:
            known.setdefault(rental.pool, []).append(rental.instance)
    return known


def in_motion(rental: Rental) -> bool:
    """Whether it is being asked for, started or drained. A machine that has ended only leaves the cloud's list."""
    return rental.phase in _MOVING or (rental.deleting and rental.phase is RentalPhase.READY)


@dataclass(frozen=True, slots=True)
class SurveyPace:
    """Seconds between two surveys of a quiet pool, two surveys of a pool in motion, and two quotes of a pool.

    ``lag_fraction``: a pool in motion whose cloud's lists may lag is asked about once in this fraction of the lag: its
    nodes come by watch, and a list that may be a minute old tells hardly more each second than every five.
    """

    quiet_seconds: float = 15.0
    moving_seconds: float = 1.0
    quote_seconds: float = 60.0
    lag_fraction: float = 1 / 12


@dataclass(slots=True)
class _UnlistedAnswers:
    """A cloud's answers that its lists may not show yet: to orders, and to being told to end instances.

    Times are seconds of the event loop's clock.
    """

    accepted: dict[OrderToken, float] = field(default_factory=dict)
    refused: dict[OrderToken, tuple[float, Refusal]] = field(default_factory=dict)
    ending: dict[InstanceId, float] = field(default_factory=dict)

    def added_to(self, survey: Survey, now: float) -> Survey:
        """The survey with what its lists may not show yet, or never do."""
        lag = survey.traits.lag_seconds
        self.accepted = {order: since for order, since in self.accepted.items() if now - since < lag}
        self.refused = {order: said for order, said in self.refused.items() if now - said[0] < _REFUSAL_SECONDS}
        self.ending = {instance: since for instance, since in self.ending.items() if now - since < lag}
        ordered = survey.ordered if survey.target is not None else survey.ordered | self.accepted.keys()
        refusals = (*survey.refusals, *(refusal for _, refusal in self.refused.values()))
        return replace(survey, ordered=ordered, refusals=refusals, instances=tuple(map(self._seen, survey.instances)))

    def _seen(self, instance: Instance) -> Instance:
        """The instance; one that the cloud was told to end is listed as alive only because lists lag."""
        if instance.id in self.ending and instance.state in (InstanceState.PENDING, InstanceState.RUNNING):
            return replace(instance, state=InstanceState.STOPPING)
        return instance


class Surveys:
    """Keeps ``latest``, ``quotes`` and ``errors`` current until ``run`` is cancelled.

    For the running event loop's thread only, whose clock it uses. ``pools``, ``moving`` and ``known`` give the pools
    there are, those in motion, and the machines on record. ``changed`` is called after an answer that differs from the
    one before in more than its time, and after every answer about a pool in motion (its next step may depend on time
    alone).
    """

    def __init__(
        self,
        accounts: Accounts,
        pools: Callable[[], Mapping[PoolId, Pool]],
        moving: Callable[[], frozenset[PoolId]],
        known: Callable[[], KnownMachines],
        changed: Callable[[], None],
        pace: SurveyPace,
    ) -> None:
        self._accounts = accounts
        self._pools = pools
        self._moving = moving
        self._known = known
        self._changed = changed
        self._clock = asyncio.get_running_loop().time
        self._pace = pace
        self._asked: dict[PoolId, float] = {}
        self._answered: dict[PoolId, float] = {}
        """When the question of the survey in ``latest`` was asked."""
        self._quoted: dict[PoolId, float] = {}
        self._in_flight: set[PoolId] = set()
        self._clouds: dict[PoolId, Cloud] = {}
        self._unlisted: dict[PoolId, _UnlistedAnswers] = {}
        self._warned: dict[PoolId, str] = {}
        """The error of each failing pool that was logged last: the same one is not logged again."""
        self._nudge = asyncio.Event()
        self.latest: dict[PoolId, Survey] = {}
        self.quotes: dict[PoolId, Quote] = {}
        self.errors: dict[PoolId, ProviderError] = {}
        self.clocks: dict[Guarded, Reading] = {}
        """The time that each cloud's clock showed in its last answer."""

    def look_again(self) -> None:
        """The pools, or which of them are in motion, may have changed."""
        self._nudge.set()

    def note_reply(self, pool: Pool, ask: Ask, reply: Reply) -> None:
        """Remember what the cloud said at once, and which orders it accepted, until its lists must show them."""
        unlisted = self._unlisted.setdefault(pool.id, _UnlistedAnswers())
        now = self._clock()
        for order in ask.orders:
            if order.token in reply.refused:
                unlisted.refused[order.token] = (now, reply.refused[order.token])
            elif order.token not in reply.launched:
                unlisted.accepted[order.token] = now

    def note_withdrawal(self, pool: Pool, orders: Iterable[OrderToken]) -> None:
        """Forget that the cloud accepted these orders."""
        unlisted = self._unlisted.setdefault(pool.id, _UnlistedAnswers())
        for order in orders:
            unlisted.accepted.pop(order, None)

    def note_end(self, pool: Pool, instance: InstanceId) -> None:
        """Remember that the cloud was told to end this instance, until its lists must show it."""
        self._unlisted.setdefault(pool.id, _UnlistedAnswers()).ending[instance] = self._clock()

    async def refresh(self, pool_id: PoolId) -> None:
        """Ask about this pool now and wait for the answer, so that no decision rests on an answer before a change."""
        pool = self._pools().get(pool_id)
        if pool is not None:
            self._asked[pool_id] = self._clock()
            await self._ask(self._accounts.account_of(pool), [pool])

    async def run(self) -> None:
        """Ask whatever is due, forever."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._nudge.clear()
                for account, pools in self._due().items():
                    self._in_flight |= {pool.id for pool in pools}
                    tasks.create_task(self._ask_and_notify(account, pools))
                delay = self._next_in()
                if delay > 0:
                    try:
                        async with asyncio.timeout(delay):
                            await self._nudge.wait()
                    except TimeoutError:
                        pass

    def _interval(self, pool: PoolId, moving: frozenset[PoolId]) -> float:
        if pool not in moving:
            return self._pace.quiet_seconds
        known = self.latest.get(pool)
        lag = 0.0 if known is None else known.traits.lag_seconds
        return max(self._pace.moving_seconds, min(lag * self._pace.lag_fraction, self._pace.quiet_seconds))

    def _due_in(self, pool: PoolId, moving: frozenset[PoolId]) -> float:
        return self._asked.get(pool, _NEVER) + self._interval(pool, moving) - self._clock()

    def _next_in(self) -> float:
        moving = self._moving()
        waits = (self._due_in(pool, moving) for pool in self._pools() if pool not in self._in_flight)
        return max(min(waits, default=self._pace.quiet_seconds), 0.0)

    def _due(self) -> Mapping[Guarded, Sequence[Pool]]:
        """The pools that are due, and with them those of their accounts that soon are: one list may tell of all."""
        pools, moving = self._pools(), self._moving()
        self.keep(pools)
        waits = {name: self._due_in(name, moving) for name in pools if name not in self._in_flight}
        soon = [pools[name] for name, wait in waits.items() if wait <= _EARLY * self._interval(name, moving)]
        return {
            account: together
            for account, together in self._accounts.by_account(soon).items()
            if any(waits[pool.id] <= 0 for pool in together)
        }

    async def _ask_and_notify(self, account: Guarded, pools: Sequence[Pool]) -> None:
        names = {pool.id for pool in pools}
        for name in names:
            self._asked[name] = self._clock()
        before = self._answers(names)
        try:
            await self._ask(account, pools)
        finally:
            self._in_flight -= names
            self._nudge.set()
            self.keep(self._pools())
        if names & self._moving() or before != self._answers(names):
            self._changed()

    def keep(self, pools: Mapping[PoolId, Pool]) -> None:
        """Drop what was said of other pools, also of former ones whose name another group's pool has now."""
        self._accounts.keep(pools)
        for name, cloud in list(self._clouds.items()):
            if name not in pools or pools[name].cloud != cloud:
                for by_pool in (self._clouds, self._asked, self._answered, self._quoted, self._unlisted, self._warned):
                    by_pool.pop(name, None)
                for answers in (self.latest, self.quotes, self.errors):
                    answers.pop(name, None)

    async def _ask(self, account: Guarded, pools: Sequence[Pool]) -> None:
        self._clouds |= {pool.id: pool.cloud for pool in pools}
        began = self._clock()
        answers, _ = await asyncio.gather(
            account.survey(pools, self._known()), asyncio.gather(*(self._quote(account, pool) for pool in pools))
        )
        self._clouds |= {pool.id: pool.cloud for pool in pools}  # so that ``keep`` drops answers that came too late
        for pool in pools:
            match answers[pool.id]:
                case Survey() as survey:
                    self._warned.pop(pool.id, None)
                    self._keep(survey, began)
                    self.clocks[account] = Reading(survey.asked, self._clock())
                    if pool.id in self.quotes:
                        self.errors.pop(pool.id, None)
                case error:
                    if self._warned.get(pool.id) != str(error):
                        _log.warning("%s", error)
                    self._warned[pool.id] = str(error)
                    self.errors[pool.id] = error

    def _keep(self, survey: Survey, began: float) -> None:
        """Keep the survey unless that of a later question is there: two may cross. Clouds' clocks may be wrong."""
        if began >= self._answered.get(survey.pool, _NEVER):
            self._answered[survey.pool] = began
            unlisted = self._unlisted.get(survey.pool)
            self.latest[survey.pool] = survey if unlisted is None else unlisted.added_to(survey, self._clock())

    async def _quote(self, account: Guarded, pool: Pool) -> None:
        now = self._clock()
        if now - self._quoted.get(pool.id, _NEVER) < self._pace.quote_seconds:
            return
        try:
            self.quotes[pool.id] = await account.quote(pool)
            self._quoted[pool.id] = now
        except ProviderError as error:
            self.errors[pool.id] = error

    def _answers(self, pools: Iterable[PoolId]) -> object:
        """The pools' answers without their times."""
        return {
            pool: (self._timeless_survey(pool), self._timeless_quote(pool), str(self.errors.get(pool)))
            for pool in pools
        }

    def _timeless_survey(self, pool: PoolId) -> object:
        survey = self.latest.get(pool)
        return None if survey is None else replace(survey, asked=_NO_TIME)

    def _timeless_quote(self, pool: PoolId) -> object:
        quote = self.quotes.get(pool)
        return None if quote is None else (quote.price, quote.worst, quote.billing_minimum_seconds)
