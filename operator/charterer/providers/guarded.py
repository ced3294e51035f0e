"""The wrapper of every account's adapter. It does what is the same for all adapters.

It adds time-outs, a limit of concurrent calls, the Lease's fence, and metrics. It also prevents what a person forbids:
mutations in a dry run, new nodes while the operator is stopped, and more nodes than the operator's own limits allow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final, TypeAlias, TypeVar

from charterer.domain.billing import abridged
from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.money import MOST_HOURLY_DOLLARS, Price
from charterer.domain.order import Ask, Reply
from charterer.domain.pool import Instance, InstanceState, Pool, PriceSegment, Quote, Survey
from charterer.domain.rental import SEGMENTS_KEPT
from charterer.domain.snapshot import NO_LIMITS, OperatorLimits, Stop
from charterer.domain.time import Instant, after
from charterer.providers.errors import (
    CloudCallWithheld,
    CloudOutcomeUnknown,
    NotLeading,
    OperatorLimitReached,
    OperatorStopped,
    ProviderError,
    Transient,
    UnknownCode,
    UnusablePrice,
)
from charterer.providers.provider import NONE_KNOWN, Drained, KnownMachines, PreflightFinding, Provider
from charterer.sentences import count
from charterer.spans import Span, no_span

# What a cloud says about a machine, without the values that cannot be recorded.
#
# If a value is out of bounds, the API server would refuse it, or it would use up a whole budget. Such a value is
# reported and left out for that machine alone. Other machines, and values that are already on record, are not affected.


_UNBELIEVABLE: Final = Price.parse(str(MOST_HOURLY_DOLLARS))
_PROVIDER_ID_LIMIT: Final = 512
_NAME_LIMIT: Final = 253
_LONGEST_MINIMUM_SECONDS: Final = 31 * 86_400
_LONGEST_LIFE_SECONDS: Final = 20 * 366 * 86_400.0


def recordable(instance: Instance, asked: Instant) -> tuple[Instance, Sequence[str]]:
    """The instance without values that cannot be recorded, and a sentence about each of these values.

    If the instance has more price segments than a record may have, they are replaced by fewer segments with the same
    cost. If no price is left, the quotes determine the cost. ``asked``: the cloud's time of the list.
    """
    faults: list[str] = []
    within = instance
    if (segments := _believable(instance.segments)) != instance.segments:
        wrong = next(segment.price for segment in instance.segments if segment not in segments)
        faults.append(f"a price of {wrong}")
        within = replace(within, segments=segments)
    if (fewer := abridged(within.segments, within.launched, SEGMENTS_KEPT)) is not within.segments:
        within = replace(within, segments=fewer)
    if not 0 <= instance.billing_minimum_seconds <= _LONGEST_MINIMUM_SECONDS:
        faults.append(f"a billing minimum of {instance.billing_minimum_seconds} s")
        within = replace(within, billing_minimum_seconds=0)
    if len(instance.provider_id) > _PROVIDER_ID_LIMIT:
        faults.append(f"a providerId of {len(instance.provider_id)} characters")
        within = replace(within, provider_id="")
    if instance.node is not None and len(instance.node) > _NAME_LIMIT:
        faults.append(f"a node's name of {len(instance.node)} characters")
        within = replace(within, node=None)
    if instance.launched < after(asked, -_LONGEST_LIFE_SECONDS):
        faults.append("a launch more than 20 years ago")
        within = replace(within, launched=asked)
    return within, faults


def _believable(segments: tuple[PriceSegment, ...]) -> tuple[PriceSegment, ...]:
    return tuple([segment for segment in segments if Price(0) <= segment.price < _UNBELIEVABLE])


# All nodes that exist or are on order, by what the clouds themselves say. Their number is compared with the operator's
# own limits.
#
# The planner already keeps the limits, but it counts the nodes by the records in the API server. The count here is
# independent of these records: it is computed from the surveys and from the orders since then. It is the last check
# before a request is sent to a cloud, so it stops a wrong plan and a wrong record.


_CALL = "ask"


@dataclass(slots=True)
class _UnderWay:
    """An order that surveys may not show yet.

    ``at``: when the order was answered, or None if it was not. ``instance``: its instance, if the answer named one.
    """

    at: float | None = None
    instance: InstanceId | None = None


@dataclass(slots=True)
class _KnownPool:
    """A pool with its last survey, the time at which the survey began (``began``), and the orders for the pool since
    then.

    ``at_least``: for a cloud that only counts, the number that was last requested, and when the request was answered.
    """

    account: object
    pool: Pool
    survey: Survey | None = None
    began: float = float("-inf")
    orders: dict[OrderToken, _UnderWay] = field(default_factory=dict)
    at_least: tuple[int, _UnderWay] | None = None

    def live(self) -> Iterator[Instance]:
        """The pool's machines that have not ended."""
        for instance in () if self.survey is None else self.survey.instances:
            if instance.state is not InstanceState.ENDED:
                yield instance

    def coming(self, ask: Ask | None = None) -> int:
        """Number of nodes that are on order or requested now, in addition to the machines that exist.

        A group's target does not count machines that are being ended.
        """
        live = list(self.live())
        if self.survey is not None and self.survey.target is not None:
            under_way = 0 if self.at_least is None else self.at_least[0]
            wanted = max(self.survey.target, under_way, 0 if ask is None else ask.at_least)
            standing = sum(instance.state is not InstanceState.STOPPING for instance in live)
            return max(wanted - standing, 0)
        orders = set(self.orders) | (set() if self.survey is None else self.survey.ordered)
        orders |= set() if ask is None else {order.token for order in ask.orders}
        return len(orders - {instance.order for instance in live})

    def worst(self) -> Price | None:
        """The most that a node of the pool can cost an hour, as the user pays it. None if no price is known."""
        return None if self.pool.quote is None else self.pool.quote.worst

    def settle(self, survey: Survey) -> None:
        """Drop the orders that the survey must show by now."""
        shown = {instance.id for instance in survey.instances}
        lag = survey.traits.lag_seconds

        def open_still(order: _UnderWay) -> bool:
            return order.instance not in shown and (order.at is None or self.began < order.at + lag)

        self.orders = {token: order for token, order in self.orders.items() if open_still(order)}
        if self.at_least is not None and not open_still(self.at_least[1]):
            self.at_least = None


class Fleet:
    """The pools of all accounts whose nodes are rented. ``clock``: seconds, as of the event loop.

    If no limits are set, nothing is stored.
    """

    def __init__(self, limits: OperatorLimits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._pools: dict[PoolId, _KnownPool] = {}

    def surveyed(self, account: object, pool: Pool, survey: Survey, began: float) -> None:
        """Store a survey that began at ``began``. Of two surveys at the same time, the one that began later counts."""
        if self._limits == NO_LIMITS or not pool.cloud.rents:
            return
        known = self._known(account, pool)
        if began >= known.began:
            known.survey, known.began = survey, began
            known.settle(survey)

    def admit(self, account: object, pool: Pool, ask: Ask) -> None:
        """Count the requested nodes as under way. If they exceed a limit, raises OperatorLimitReached, and nothing is
        counted.
        """
        if self._limits == NO_LIMITS or not pool.cloud.rents:
            return
        known = self._known(account, pool)
        self._check(known, ask)
        known.orders |= {order.token: _UnderWay() for order in ask.orders}
        known.at_least = ask.at_least, _UnderWay()

    def answered(self, pool: PoolId, ask: Ask, reply: Reply | None) -> None:
        """Record the cloud's answer.

        ``reply``: None if it is unknown what the cloud did. Later surveys will show that.
        """
        known = self._pools.get(pool)
        if known is None:
            return
        reply = Reply() if reply is None else reply
        for order in ask.orders:
            if order.token in reply.refused:
                known.orders.pop(order.token, None)
            elif order.token in known.orders:
                known.orders[order.token] = _UnderWay(self._clock(), reply.launched.get(order.token))
        if known.at_least is not None:
            known.at_least = known.at_least[0], _UnderWay(self._clock())

    def keep(self, pools: Mapping[PoolId, Pool]) -> None:
        """Forget all pools other than these. A pool whose name now belongs to a pool of another group is forgotten
        too.
        """
        for name, known in list(self._pools.items()):
            if name not in pools or pools[name].cloud != known.pool.cloud:
                del self._pools[name]

    def _known(self, account: object, pool: Pool) -> _KnownPool:
        known = self._pools.get(pool.id)
        if known is None or known.pool.cloud != pool.cloud:
            known = self._pools[pool.id] = _KnownPool(account, pool)
        known.pool = pool
        return known

    def _check(self, asked: _KnownPool, ask: Ask) -> None:
        nodes, micros = 0, 0
        seen: set[tuple[object, InstanceId]] = set()
        for known in self._pools.values():
            machines = [item for item in known.live() if (known.account, item.id) not in seen]
            seen |= {(known.account, item.id) for item in machines}
            coming = known.coming(ask if known is asked else None)
            nodes += len(machines) + coming
            if self._limits.hourly is not None:
                prices = [_price(known, item) for item in machines] + [known.worst()] * coming
                micros += sum(_sure(price, known.pool, asked.pool).micros_per_hour for price in prices)
        limits = self._limits
        if limits.nodes is not None and nodes > limits.nodes:
            message = f"it would make {count(nodes, 'node')}, and the operator may have {limits.nodes} (--max-nodes)"
            raise OperatorLimitReached(asked.pool.id, _CALL, "Nodes", message)
        if limits.hourly is not None and micros > limits.hourly.micros_per_hour:
            message = f"all nodes would cost up to {Price(micros)}, and the operator's may cost {limits.hourly}"
            raise OperatorLimitReached(asked.pool.id, _CALL, "Dollars", f"{message} (--max-dollars-per-hour)")


def _price(known: _KnownPool, machine: Instance) -> Price | None:
    """The most that a machine costs an hour. It is the newest price, or the worst price of a new machine if that is
    higher.
    """
    prices = [known.pool.most_priced(segment.price) for segment in machine.segments[-1:]]
    worst = known.worst()
    return max([*prices, *([] if worst is None else [worst])], default=None)


def _sure(price: Price | None, pool: Pool, asked: Pool) -> Price:
    if price is None:
        message = f"the price of GPUPool {pool.id} is not known, so that --max-dollars-per-hour cannot be kept"
        raise OperatorLimitReached(asked.id, _CALL, "Dollars", f"{message}: set its spec.price.hourly")
    return price


_log = logging.getLogger(__name__)

T = TypeVar("T")

MIN_LEADERSHIP: Final = 1.0
"""Seconds of leadership that must be left for a mutation to be sent. They are enough for a usual answer."""


CallRecorder: TypeAlias = Callable[[str, str, str, float], None]
"""Records a call: the vendor, the call's name, its outcome (``ok`` or the error's reason) and its seconds."""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Most seconds in total that each kind of call may take.

    ``at_once``: most calls of an account at a time. Reads and mutations have separate limits and do not wait for each
    other. A survey is one call, however many pools it is about.
    """

    survey: float = 60.0
    quote: float = 30.0
    ask: float = 60.0
    withdraw: float = 30.0
    terminate: float = 30.0
    renew: float = 60.0
    preflight: float = 60.0
    at_once: int = 8


async def _nobody_stops() -> Stop | None:
    return None


@dataclass(frozen=True, slots=True)
class Guards:
    """The limits for the calls of all accounts.

    ``record``: records each call.
    ``fence``: returns the seconds for which this process may still change anything (the Lease's ``remaining``).
    ``stopped``: reads, without a cache, whether a person has stopped the operator. If it raises an error, no node is
    requested.
    ``dry_run``: whether mutations are only logged.
    ``limits``: the operator's own limits.
    ``span``: makes the span of each call.
    """

    record: CallRecorder = lambda vendor, call, outcome, seconds: None
    fence: Callable[[], float] = lambda: inf
    stopped: Callable[[], Awaitable[Stop | None]] = _nobody_stops
    dry_run: bool = False
    limits: OperatorLimits = NO_LIMITS
    calls: CallLimits = field(default_factory=CallLimits)
    span: Span = no_span


class Guarded:
    """The Provider of one account. Use it only in the running event loop, because it reads the loop's clock."""

    def __init__(self, vendor: str, adapter: Provider, guards: Guards, fleet: Fleet) -> None:
        self._vendor = vendor
        self._adapter = adapter
        self._guards = guards
        self._fleet = fleet
        self._reads = asyncio.Semaphore(guards.calls.at_once)
        self._mutations = asyncio.Semaphore(guards.calls.at_once)
        self._logged: dict[tuple[PoolId, str], str] = {}

    # --- reads --------------------------------------------------------------------------------------------------------

    async def survey(
        self, pools: Sequence[Pool], known: KnownMachines = NONE_KNOWN
    ) -> Mapping[PoolId, Survey | ProviderError]:
        """The adapter's answer. It is counted as one call for each pool. If the survey fails as a whole, every pool
        gets the error.

        Values of machines that cannot be recorded are left out.
        """
        began = _clock()
        try:
            async with self._reads:
                began = _clock()
                asking = self._adapter.survey(pools, known)
                with self._span("survey", pools):
                    answers = await _within(self._guards.calls.survey, pools[0].id, "survey", asking)
        except ProviderError as error:
            answers = {pool.id: error.about(pool.id) for pool in pools}
        told = dict(answers)
        for pool in pools:
            answer = answers[pool.id]
            self._record("survey", answer, began)
            if isinstance(answer, Survey):
                told[pool.id] = answer = self._recordable(answer)
                self._fleet.surveyed(self, pool, answer, began)
        return told

    def _recordable(self, survey: Survey) -> Survey:
        """The survey without those values of its machines that cannot be recorded. These values are logged once."""
        read = [recordable(instance, survey.asked) for instance in survey.instances]
        problems = [f"{item.id[:253]} has {' and '.join(faults)}" for item, faults in read if faults]
        if (content := "; ".join(problems)) != self._logged.get((survey.pool, "survey"), ""):
            self._logged[survey.pool, "survey"] = content
            if problems:
                _log.error("GPUPool %s: the cloud says what cannot be true: instance %s", survey.pool, content)
        return replace(survey, instances=tuple([item for item, _ in read])) if problems else survey

    async def quote(self, pool: Pool) -> Quote:
        """The adapter's quote. Raises UnusablePrice if the quote has no believable price. It is not raised if the
        pool's spec says what a node costs, or if the pool's nodes are in the cluster anyway.
        """
        quote = await self._read(pool, "quote", self._guards.calls.quote, lambda: self._adapter.quote(pool))
        prices = quote.price, quote.worst
        known = pool.price_override is not None or not pool.cloud.rents
        if not known and (min(prices) <= Price(0) or max(prices) >= _UNBELIEVABLE):
            message = f"{quote.source} says that a node costs {quote.price}, and at most {quote.worst}"
            error = UnusablePrice(pool.id, "quote", "NoPrice", message)
            _log.error("%s", error)
            raise error
        return quote

    async def preflight(self, pool: Pool) -> Sequence[PreflightFinding]:
        """The adapter's findings."""
        return await self._read(pool, "preflight", self._guards.calls.preflight, lambda: self._adapter.preflight(pool))

    # --- mutations ----------------------------------------------------------------------------------------------------

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        """Ask as the adapter does, within the operator's limits. Nothing is requested if a person has stopped the
        operator.
        """
        orders = ", ".join(f"{order.rental} ({order.token})" for order in ask.orders)
        content = f"orders {orders}; at least {ask.at_least} nodes{', together' if ask.together else ''}"
        async with self._mutations:
            self._begin(pool, "ask", content)
            if await self._guards.stopped() is not None:
                raise self._refused("ask", OperatorStopped(pool.id, "ask", "Stopped", "not sent: a person stopped it"))
            try:
                self._fleet.admit(self, pool, ask)
            except ProviderError as error:
                raise self._refused("ask", error) from None
            reply: Reply | None = None
            try:
                reply = await self._mutate(pool, "ask", self._guards.calls.ask, lambda: self._adapter.ask(pool, ask))
            finally:
                self._fleet.answered(pool.id, ask, reply)
            return reply

    async def withdraw(self, pool: Pool, orders: Sequence[OrderToken], keep: int) -> None:
        """Withdraw as the adapter does."""
        async with self._mutations:
            self._begin(pool, "withdraw", f"orders {', '.join(orders)}; {keep} nodes stay")
            seconds = self._guards.calls.withdraw
            await self._mutate(pool, "withdraw", seconds, lambda: self._adapter.withdraw(pool, orders, keep))

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        """End the instance as the adapter does."""
        async with self._mutations:
            self._begin(pool, "terminate", f"instance {instance}, whose node is {proof.node}")
            seconds = self._guards.calls.terminate
            await self._mutate(pool, "terminate", seconds, lambda: self._adapter.terminate(pool, instance, proof))

    async def renew(self, pools: Sequence[Pool]) -> None:
        """Renew as the adapter does, in one call for all pools."""
        first = pools[0]
        async with self._mutations:
            self._begin(first, "renew", f"what ends itself in {', '.join(pool.id for pool in pools)}")
            await self._mutate(first, "renew", self._guards.calls.renew, lambda: self._adapter.renew(pools))

    async def close(self) -> None:
        """Close all connections."""
        await self._adapter.close()

    # --- what all calls have ------------------------------------------------------------------------------------------

    def _begin(self, pool: Pool, call: str, content: str) -> None:
        """In a dry run, log the mutation once and raise CloudCallWithheld. Otherwise do nothing."""
        if not self._guards.dry_run:
            return
        if self._logged.get((pool.id, call)) != content:
            self._logged[pool.id, call] = content
            _log.info("dry run, not sent: GPUPool %s: %s %s: %s", pool.id, self._vendor, call, content)
        raise CloudCallWithheld(pool.id, call, "DryRun", "not sent: this is a dry run")

    async def _read(self, pool: Pool, call: str, seconds: float, send: Callable[[], Awaitable[T]]) -> T:
        async with self._reads:
            return await self._counted(pool, call, lambda: _within(seconds, pool.id, call, send()))

    async def _mutate(self, pool: Pool, call: str, seconds: float, send: Callable[[], Awaitable[T]]) -> T:
        """Send a mutation unless the leadership ends too soon. The call is given up when the leadership or its time
        ends.
        """
        remaining = self._guards.fence()
        if remaining < MIN_LEADERSHIP:
            message = f"not sent: this process leads for {remaining:.1f} s more"
            raise self._refused(call, NotLeading(pool.id, call, "NotLeading", message))
        return await self._counted(
            pool, call, lambda: self._in_time(pool, call, min(seconds, remaining), seconds, send)
        )

    async def _in_time(
        self, pool: Pool, call: str, seconds: float, allowed: float, send: Callable[[], Awaitable[T]]
    ) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await send()
        except TimeoutError as error:
            if seconds < allowed:
                raise CloudOutcomeUnknown(pool.id, call, "LeadEnded", "no answer while this process led") from error
            raise CloudOutcomeUnknown(pool.id, call, "TimeOut", f"no answer within {seconds:.0f} s") from error
        except ProviderError:
            raise
        except Exception as error:
            _log.exception("GPUPool %s: %s: an error that the adapter does not know; please report it", pool.id, call)
            message = "an error that the adapter does not know; it is in the log"
            raise CloudOutcomeUnknown(pool.id, call, type(error).__name__, message) from error

    def _span(self, call: str, pools: Iterable[Pool]) -> AbstractContextManager[object]:
        named = {"charterer.pools": ",".join([pool.id for pool in pools])}
        return self._guards.span(f"{self._vendor} {call}", named, outgoing=True)

    async def _counted(self, pool: Pool, call: str, send: Callable[[], Awaitable[T]]) -> T:
        began = _clock()
        try:
            with self._span(call, [pool]):
                result = await send()
        except ProviderError as error:
            self._record(call, error, began)
            raise
        self._record(call, result, began)
        return result

    def _refused(self, call: str, error: ProviderError) -> ProviderError:
        """Record the error of a call that was not sent, and return it."""
        self._record(call, error, _clock())
        return error

    def _record(self, call: str, result: object, began: float) -> None:
        outcome = result.reason if isinstance(result, ProviderError) else "ok"
        self._guards.record(self._vendor, call, outcome, _clock() - began)


async def _within(seconds: float, pool: PoolId, call: str, answer: Awaitable[T]) -> T:
    """A read's answer, if it comes in time. Any exception that is no ProviderError becomes an UnknownCode."""
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError as error:
        raise Transient(pool, call, "TimeOut", f"no answer within {seconds:.0f} s") from error
    except ProviderError:
        raise
    except Exception as error:
        _log.exception("GPUPool %s: %s: an error that the adapter does not know; please report it", pool, call)
        message = "an error that the adapter does not know; it is in the log"
        raise UnknownCode(pool, call, type(error).__name__, message) from error


def _clock() -> float:
    return asyncio.get_running_loop().time()
