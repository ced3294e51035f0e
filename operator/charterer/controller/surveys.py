"""The last valid survey and quote of each pool, and the error of a failed call to its cloud.

A pool in motion has a rental that is being requested, started or ended. A pool in motion is surveyed often, and a quiet
pool rarely. After a failed call the last answer stays valid for plans, and the pool's condition says since when the
cloud is unreachable. Each account is surveyed separately, so that a slow cloud does not delay the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

from charterer.cluster import kinds
from charterer.cluster.store import ObjectKey, Store
from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.order import Ask, Refusal, Reply
from charterer.domain.pool import Cloud, Instance, InstanceState, Pool, Quote, Survey
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.time import Instant, after, seconds_between
from charterer.providers.accounts import Accounts
from charterer.providers.errors import CloudCallWithheld, NotLeading, ProviderError
from charterer.providers.guarded import Guarded
from charterer.providers.provider import KnownMachines

# The time for plans and accounts is that of the operator's own clock, as long as other clocks agree with it.
#
# If a clock jumps past the end of a period, the next period would be opened too early, and the spending between would
# be lost. If a clock is behind, the cost of runs would be missed. So the own clock counts only while it is near the
# median of all clocks: the own one, the API server's and each cloud's. Between two answers of another clock, the
# monotonic clock advances the last reading of that clock.


_log = logging.getLogger(__name__)

TOLERATED_SECONDS = 30.0
"""Seconds by which the own clock may differ from the median. The readings of other clocks arrive late and in whole
seconds.
"""


class Reading(NamedTuple):
    """The time of another clock, and the monotonic clock's seconds when its answer came."""

    time: Instant
    seconds: float


class TrustedClock:
    """Returns the present time. ``own``: the operator's clock. ``monotonic``: seconds of a monotonic clock. ``others``:
    returns the last reading of each other clock.
    """

    def __init__(
        self,
        own: Callable[[], Instant],
        monotonic: Callable[[], float],
        others: Callable[[], Iterable[Reading]],
    ) -> None:
        self._own = own
        self._monotonic = monotonic
        self._others = others
        self._wrong = False

    def now(self) -> Instant:
        """The time of the operator's own clock, or the median of all clocks if the two are far apart.

        Of an even number of clocks, the earlier of the two middle ones is the median.
        """
        own, seconds = self._own(), self._monotonic()
        times = sorted([own, *(after(read.time, seconds - read.seconds) for read in self._others())])
        median = times[(len(times) - 1) // 2]
        wrong = abs(seconds_between(median, own)) > TOLERATED_SECONDS
        if wrong and not self._wrong:
            message = "the operator's clock is %+.0f s off: it is not used until it agrees with others"
            _log.error(message, seconds_between(median, own))
        self._wrong = wrong
        return median if wrong else own


# Pauses of an object after its failures. Each further failure in a row doubles the pause.


Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of ``seconds``. Nothing is tried before the clock shows ``until``."""

    until: float
    seconds: float


class Backoff(Generic[Key]):
    """The pauses of objects. ``clock``: returns seconds. ``first``: seconds of the pause after a first failure."""

    def __init__(self, clock: Callable[[], float], first: float) -> None:
        self._clock = clock
        self._first = first
        self._pauses: dict[Key, Pause] = {}

    def pausing(self, key: Key) -> bool:
        """Whether the object's pause goes on."""
        pause = self._pauses.get(key)
        return pause is not None and self._clock() < pause.until

    def failed(self, key: Key, longest: float, least: float = 0.0) -> float:
        """Begin a pause of the object, from ``least`` to ``longest`` seconds. Returns its seconds."""
        last = self._pauses.get(key)
        seconds = min(max(self._first if last is None else 2 * last.seconds, least), longest)
        self._pauses[key] = Pause(self._clock() + seconds, seconds)
        return seconds

    def succeeded(self, key: Key) -> None:
        """Reset the object, so that its next failure is a first one."""
        self._pauses.pop(key, None)

    def retain(self, keys: Collection[Key]) -> None:
        """Drop the pauses of all objects other than ``keys``."""
        for gone in [key for key in self._pauses if key not in keys]:
            del self._pauses[gone]

    def forget_ended(self, seconds: float) -> None:
        """Drop the pauses that ended that many seconds ago or earlier, so that the next failures are first ones."""
        oldest = self._clock() - seconds
        self._pauses = {key: pause for key, pause in self._pauses.items() if pause.until > oldest}

    def soonest(self) -> float | None:
        """The end of the first pause by the clock, or None if there are no pauses."""
        return min((pause.until for pause in self._pauses.values()), default=None)


# The pools to act for: declared pools, and pools of which only rentals are left.
#
# Two GPUPools may mean the same machines. If both acted, each would take the other's machines for orphans, and both
# would set one target. So only the first by ``precedence`` acts.
#
# Two pools mean the same machines in three cases. Their specs may have the same ``identity`` (unless each machine names
# its pool). The cloud may have one identifier of the group for both pools. The cloud may list a machine for both pools.


def known_pools(
    declared: Mapping[ObjectKey, Pool], rentals: Mapping[ObjectKey, Rental], unread: Container[str] = ()
) -> Mapping[PoolId, Pool]:
    """The declared pools by name, and a substitute for each pool that has rentals but does not exist any more.

    ``unread``: names of pools that exist but cannot be read. Their rentals get no steps. If a pool was deleted and
    created again for another group, the new pool is left out until the rentals of the former group are gone. Otherwise
    the names and records of one group's rentals could be taken for those of the other group.
    """
    pools = {pool.id: pool for pool in declared.values()}
    for rental in rentals.values():
        pool = pools.get(rental.pool)
        missing = pool is None and rental.pool not in unread
        if missing or (pool is not None and not pool.gone and _are_different(pool.cloud, rental.cloud)):
            pools[rental.pool] = _left_of(rental, pool)
    return pools


def machines_of(instances: Sequence[Instance]) -> frozenset[str]:
    """The provider ids of the machines that the cloud lists."""
    return frozenset([instance.provider_id for instance in instances if instance.provider_id])


def with_known_instances(survey: Survey, before: Survey | None) -> Survey:
    """The survey, in which each instance that equals one of the survey before is the same object. If all are equal, the
    tuple is the same too.
    """
    if before is None:
        return survey
    known = {instance: instance for instance in before.instances}
    instances = tuple([known.get(instance, instance) for instance in survey.instances])
    same = instances == before.instances
    return replace(survey, instances=before.instances if same else instances)


def listed_twice(machines: Mapping[PoolId, frozenset[str]]) -> Mapping[PoolId, frozenset[str]]:
    """The machines of each pool that another pool lists too. ``machines``: of all pools."""
    everything = frozenset[str]().union(*machines.values())
    if len(everything) == sum(map(len, machines.values())):
        return {}
    number = Counter(chain.from_iterable(machines.values()))
    return {name: frozenset([each for each in here if number[each] > 1]) for name, here in machines.items()}


def first_come(pools: Mapping[PoolId, Pool], shared: Mapping[PoolId, frozenset[str]]) -> Mapping[PoolId, Pool]:
    """The pools with their offers. If a pool has the same machines as an earlier pool, its ``taken_by`` names that
    pool.

    ``shared``: the machines that several pools list (``listed_twice``).
    """
    holders: dict[Hashable, PoolId] = {}
    found: dict[PoolId, Pool] = {}
    for pool in sorted(pools.values(), key=precedence):
        keys = list(_identities(pool, shared.get(pool.id, frozenset())))
        holder = next((holders[key] for key in keys if key in holders), None)
        for key in keys:
            holders.setdefault(key, holder or pool.id)
        found[pool.id] = pool if holder is None else replace(pool, taken_by=holder)
    return {name: found[name] for name in pools}


def precedence(pool: Pool) -> tuple[bool, bool, Instant, PoolId]:
    """The sort key of pools. Pools whose cloud has ever answered are first. Among them the oldest is first, and then
    the first by name.

    So a pool with a wrong capacity type, group or host, which cannot use the machines itself, does not keep another
    pool from them.
    """
    return pool.gone, pool.offering is None, pool.created, pool.id


def _identities(pool: Pool, shared: frozenset[str]) -> Iterable[Hashable]:
    """All keys of a pool. Two pools that have one key in common mean the same machines."""
    if not pool.cloud.marks_machines:
        yield pool.cloud.identity
    if pool.offering is not None and pool.offering.group_id:
        yield "group", pool.offering.group_id
    yield from (("machine", machine) for machine in shared)


def _are_different(one: Cloud, other: Cloud) -> bool:
    """Whether the two are different groups. Equal values are found first, because a comparison of ``identity`` is
    slow.
    """
    return one is not other and one != other and one.identity != other.identity


def _left_of(rental: Rental, namesake: Pool | None) -> Pool:
    """The pool of a rental whose pool object is gone, with enough to survey the group and end its machines."""
    return Pool(
        id=rental.pool,
        uid="" if namesake is None else namesake.uid,
        resource_version="",
        generation=0 if namesake is None else namesake.generation,
        created=rental.created,
        cloud=rental.cloud,
        max_nodes=1,
        capacity_type=rental.capacity_type,
        start_seconds=0.0,
        cooldown_seconds=0.0,
        price_override=None,
        offering=None,
        quote=None,
        deleting=True,
        guarded=True,
        gone=True,
    )


# The operator's heartbeat is renewed regularly. A machine that is made to end itself does so when the heartbeat stops.


def pools_to_renew(store: Store) -> Mapping[PoolId, Pool]:
    """The existing pools. For a pool that does not exist or cannot be read, the pool as its rentals record it.

    Otherwise a pool that cannot be read would let machines end on which jobs run.
    """
    return known_pools(store.view(kinds.GPU_POOLS).objects, store.view(kinds.GPU_RENTALS).objects)


class Renewals:
    """Renews the heartbeat until ``run`` is cancelled. ``pools`` returns those that have machines (``pools_to_renew``).

    ``every_seconds``: as often as quiet pools are surveyed, because adapters use their last list.
    """

    def __init__(self, accounts: Accounts, pools: Callable[[], Mapping[PoolId, Pool]], every_seconds: float) -> None:
        self._accounts = accounts
        self._pools = pools
        self._every = every_seconds

    async def run(self) -> None:
        """Renew forever, each account separately."""
        while True:
            accounts = self._accounts.by_account(self._pools().values())
            await asyncio.gather(*(_renew(account, pools) for account, pools in accounts.items()))
            await asyncio.sleep(self._every)


async def _renew(account: Guarded, pools: Sequence[Pool]) -> None:
    try:
        await account.renew(pools)
    except (CloudCallWithheld, NotLeading):
        return
    except ProviderError as error:
        _log.warning("machines that end themselves without an operator were not all renewed: %s", error)


_REFUSAL_SECONDS = 600.0
"""Seconds for which an order's refusal stays in memory. The pool's status has the refusal long before."""
_MOVING = frozenset({RentalPhase.REQUESTED, RentalPhase.STARTING, RentalPhase.DRAINING})
_EARLY = 0.5
"""Fraction of a pool's interval after which the pool may be surveyed early, together with other pools of its
account.
"""
_NO_TIME = Instant(0)
_NEVER = float("-inf")
"""The clock reading that stands for the last survey of a pool that was never surveyed."""


def pools_in(store: Store) -> Mapping[PoolId, Pool]:
    """The existing pools, and the pools of which only rentals are left."""
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
    """Whether the rental is being requested, started or drained. An ended machine only leaves the cloud's list."""
    return rental.phase in _MOVING or (rental.deleting and rental.phase is RentalPhase.READY)


@dataclass(frozen=True, slots=True)
class SurveyPace:
    """Seconds between two surveys of a quiet pool, two surveys of a pool in motion, and two quotes of a pool.

    ``lag_fraction``: a pool in motion is surveyed at most once in this fraction of the lag of its cloud's lists. The
    watch reports the pool's nodes anyway. If a list may be a minute old, a request every second shows little more than
    one every five seconds.
    """

    quiet_seconds: float = 15.0
    moving_seconds: float = 1.0
    quote_seconds: float = 60.0
    lag_fraction: float = 1 / 12


@dataclass(slots=True)
class _UnlistedAnswers:
    """A cloud's replies to orders and to requests to end instances, which its lists may not show yet.

    Times are seconds of the event loop's clock.
    """

    accepted: dict[OrderToken, float] = field(default_factory=dict)
    refused: dict[OrderToken, tuple[float, Refusal]] = field(default_factory=dict)
    ending: dict[InstanceId, float] = field(default_factory=dict)

    def added_to(self, survey: Survey, now: float) -> Survey:
        """The survey with the answers that its lists do not show yet, or never show."""
        lag = survey.traits.lag_seconds
        self.accepted = {order: since for order, since in self.accepted.items() if now - since < lag}
        self.refused = {order: said for order, said in self.refused.items() if now - said[0] < _REFUSAL_SECONDS}
        self.ending = {instance: since for instance, since in self.ending.items() if now - since < lag}
        ordered = survey.ordered if survey.target is not None else survey.ordered | self.accepted.keys()
        refusals = (*survey.refusals, *(refusal for _, refusal in self.refused.values()))
        return replace(survey, ordered=ordered, refusals=refusals, instances=tuple(map(self._seen, survey.instances)))

    def _seen(self, instance: Instance) -> Instance:
        """The instance, as Stopping if the cloud was told to end it and lists it as alive only because of the lag."""
        if instance.id in self.ending and instance.state in (InstanceState.PENDING, InstanceState.RUNNING):
            return replace(instance, state=InstanceState.STOPPING)
        return instance


class Surveys:
    """Keeps ``latest``, ``quotes`` and ``errors`` current until ``run`` is cancelled.

    Use this class only in the running event loop's thread. ``pools``, ``moving`` and ``known`` return the existing
    pools, the pools in motion, and the machines on record. ``changed`` is called after an answer that differs from the
    answer before in more than its time. It is also called after every answer about a pool in motion, whose next step
    may depend on time alone.
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
        """When the request for the survey in ``latest`` was sent."""
        self._quoted: dict[PoolId, float] = {}
        self._in_flight: set[PoolId] = set()
        self._clouds: dict[PoolId, Cloud] = {}
        self._unlisted: dict[PoolId, _UnlistedAnswers] = {}
        self._warned: dict[PoolId, str] = {}
        """The last logged error of each failing pool, which is not logged again."""
        self._nudge = asyncio.Event()
        self.latest: dict[PoolId, Survey] = {}
        self.quotes: dict[PoolId, Quote] = {}
        self.errors: dict[PoolId, ProviderError] = {}
        self.clocks: dict[Guarded, Reading] = {}
        """The time that each cloud's clock showed in its last answer."""

    def look_again(self) -> None:
        """Compute anew which pools are due. Call this if the pools, or which of them are in motion, may have
        changed.
        """
        self._nudge.set()

    def note_reply(self, pool: Pool, ask: Ask, reply: Reply) -> None:
        """Store a reply's refusals for ``_REFUSAL_SECONDS``, and accepted orders until the lists must show them."""
        unlisted = self._unlisted.setdefault(pool.id, _UnlistedAnswers())
        now = self._clock()
        for order in ask.orders:
            if order.token in reply.refused:
                unlisted.refused[order.token] = (now, reply.refused[order.token])
            elif order.token not in reply.launched:
                unlisted.accepted[order.token] = now

    def note_withdrawal(self, pool: Pool, orders: Iterable[OrderToken]) -> None:
        """Drop these orders from those that the cloud accepted."""
        unlisted = self._unlisted.setdefault(pool.id, _UnlistedAnswers())
        for order in orders:
            unlisted.accepted.pop(order, None)

    def note_end(self, pool: Pool, instance: InstanceId) -> None:
        """Store that the cloud was told to end this instance, until its lists must show that."""
        self._unlisted.setdefault(pool.id, _UnlistedAnswers()).ending[instance] = self._clock()

    async def refresh(self, pool_id: PoolId) -> None:
        """Survey this pool now and wait for the answer, so that no decision uses an answer from before a change."""
        pool = self._pools().get(pool_id)
        if pool is not None:
            self._asked[pool_id] = self._clock()
            await self._ask(self._accounts.account_of(pool), [pool])

    async def run(self) -> None:
        """Survey and quote the pools that are due, forever."""
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
        """The pools that are due by account. Pools of the account that will soon be due are included, because one list
        may show all.
        """
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
        """Drop the answers about other pools, and about a former pool whose name now belongs to another group."""
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
        """Store the survey unless the answer to a later request is stored already. The times of requests decide,
        because clouds' clocks may be wrong.
        """
        if began >= self._answered.get(survey.pool, _NEVER):
            self._answered[survey.pool] = began
            unlisted, before = self._unlisted.get(survey.pool), self.latest.get(survey.pool)
            told = survey if unlisted is None else unlisted.added_to(survey, self._clock())
            self.latest[survey.pool] = with_known_instances(told, before)

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
