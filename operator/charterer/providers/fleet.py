"""All nodes that exist or are on order, as the clouds themselves say, held against the operator's own limits.

The planner keeps to the limits by what is on record in the API server. This counts anew, from the surveys and from what
was asked for since, and is the last look before a cloud is asked: neither a wrong plan nor a wrong record passes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.money import Price
from charterer.domain.order import Ask, Reply
from charterer.domain.pool import Instance, InstanceState, Pool, Survey
from charterer.domain.snapshot import NO_LIMITS, OperatorLimits
from charterer.providers.errors import OperatorLimitReached
from charterer.sentences import count

_CALL = "ask"


@dataclass(slots=True)
class _UnderWay:
    """An order that surveys need not show yet: answered at ``at`` (None: not yet), as ``instance`` if it was named."""

    at: float | None = None
    instance: InstanceId | None = None


@dataclass(slots=True)
class _KnownPool:
    """A pool with what its cloud said last, when that was asked for, and what was asked of it since.

    ``at_least``: the number last asked for, where the cloud only counts; and when that was answered, as above.
    """

    account: object
    pool: Pool
    survey: Survey | None = None
    began: float = float("-inf")
    orders: dict[OrderToken, _UnderWay] = field(default_factory=dict)
    at_least: tuple[int, _UnderWay] | None = None

    def live(self) -> Iterator[Instance]:
        """Its machines that have not ended."""
        for instance in () if self.survey is None else self.survey.instances:
            if instance.state is not InstanceState.ENDED:
                yield instance

    def coming(self, ask: Ask | None = None) -> int:
        """Nodes that are on order, or asked for now, beside the machines that are there.

        A machine that is being ended is none of those that a group's target counts.
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
        """The most that a node of the pool can cost an hour, as the user pays it; None where no price is known."""
        return None if self.pool.quote is None else self.pool.quote.worst

    def settle(self, survey: Survey) -> None:
        """Drop what was under way and must be in the survey by now."""
        shown = {instance.id for instance in survey.instances}
        lag = survey.traits.lag_seconds

        def open_still(order: _UnderWay) -> bool:
            return order.instance not in shown and (order.at is None or self.began < order.at + lag)

        self.orders = {token: order for token, order in self.orders.items() if open_still(order)}
        if self.at_least is not None and not open_still(self.at_least[1]):
            self.at_least = None


class Fleet:
    """The pools of all accounts. ``clock``: seconds, as of the event loop. Without limits nothing is kept."""

    def __init__(self, limits: OperatorLimits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._pools: dict[PoolId, _KnownPool] = {}

    def surveyed(self, account: object, pool: Pool, survey: Survey, began: float) -> None:
        """Take a survey in, which was asked for at ``began``; two may cross."""
        if self._limits == NO_LIMITS:
            return
        known = self._known(account, pool)
        if began >= known.began:
            known.survey, known.began = survey, began
            known.settle(survey)

    def admit(self, account: object, pool: Pool, ask: Ask) -> None:
        """Count what is asked for as under way. OperatorLimitReached, and nothing is counted, where it is too much."""
        if self._limits == NO_LIMITS:
            return
        known = self._known(account, pool)
        self._check(known, ask)
        known.orders |= {order.token: _UnderWay() for order in ask.orders}
        known.at_least = ask.at_least, _UnderWay()

    def answered(self, pool: PoolId, ask: Ask, reply: Reply | None) -> None:
        """The cloud has answered, or (None) nobody knows what it did: later surveys will show that."""
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
        """Forget all other pools, also former ones whose name another group's pool has now."""
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
    """The most that a machine costs an hour: its newest price, or what one launched now may cost, if that is more."""
    prices = [known.pool.most_priced(segment.price) for segment in machine.segments[-1:]]
    worst = known.worst()
    return max([*prices, *([] if worst is None else [worst])], default=None)


def _sure(price: Price | None, pool: Pool, asked: Pool) -> Price:
    if price is None:
        message = f"the price of GPUPool {pool.id} is not known, so that --max-dollars-per-hour cannot be kept"
        raise OperatorLimitReached(asked.id, _CALL, "Dollars", f"{message}: set its spec.price.hourly")
    return price
