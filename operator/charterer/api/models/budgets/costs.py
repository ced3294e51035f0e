"""The dollars of a GPUBudget by cause, pool, namespace and day, as its status keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field

from charterer.api.models.base import ATOMIC, Amount, ApiModel, Time
from charterer.domain.budget import DAYS_KEPT, Cause, Costs, DayCosts
from charterer.domain.ids import PoolId
from charterer.domain.money import ZERO, Money


class CauseCosts(ApiModel):
    """Dollars that rented nodes cost, by cause."""

    job: Amount | None = None
    """GPUs that jobs held."""
    starting: Amount | None = None
    """Nodes from their launch until they took pods."""
    idle: Amount | None = None
    """GPUs of ready nodes that no job held."""
    ending: Amount | None = None
    """Nodes without a job from the decision to end them to their end."""
    incomplete_gang: Amount | None = None
    """Nodes that came for a job which needs several at once, while too few of them had come."""

    def by_cause(self) -> Mapping[Cause, Money]:
        """The amounts that are there."""
        amounts = ((cause, getattr(self, cause.value)) for cause in Cause)
        return {cause: amount for cause, amount in amounts if amount is not None}


class PoolCosts(CauseCosts):
    """Dollars that the rented nodes of a pool cost, by cause."""

    pool: Annotated[str, Field(max_length=253)]
    """The GPUPool."""


class NamespaceCosts(ApiModel):
    """Dollars that the GPUs of a namespace's jobs cost."""

    namespace: Annotated[str, Field(max_length=63)]
    """The namespace, or (other)."""
    job: Amount
    """GPUs that its jobs held."""


class DayOfCosts(CauseCosts):
    """Dollars that were counted on a day."""

    start: Time
    """When the day began in the budget's time zone."""
    namespaces: Annotated[tuple[NamespaceCosts, ...], Field(max_length=100, json_schema_extra=ATOMIC)] = ()
    """Dollars of jobs by namespace; after 10 namespaces, further ones count under (other)."""

    @classmethod
    def from_domain(cls, day: DayCosts) -> Self:
        """The day as it is recorded."""
        causes = {cause.value: amount for cause, amount in sorted(day.by_cause.items())}
        return cls(start=day.start, namespaces=_by_namespace(day.by_namespace), **causes)

    def to_domain(self) -> DayCosts:
        """The day as it was recorded."""
        return DayCosts(self.start, self.by_cause(), {item.namespace: item.job for item in self.namespaces})


def _by_namespace(amounts: Mapping[str, Money]) -> tuple[NamespaceCosts, ...]:
    return tuple([NamespaceCosts(namespace=name, job=amount) for name, amount in sorted(amounts.items())])


class BudgetCosts(ApiModel):
    """The dollars of a budget by cause, over all its months. No amount ever falls."""

    through: Time
    """When the last amounts were added: about once a minute."""
    lifetime: Amount | None = None
    """The lifetime of the ledger at that time."""
    pools: Annotated[tuple[PoolCosts, ...], Field(max_length=1_000, json_schema_extra=ATOMIC)] = ()
    """Dollars by pool and cause; after 500 pools, further ones count under (other). Together the amounts are what all
    rented nodes cost so far."""
    namespaces: Annotated[tuple[NamespaceCosts, ...], Field(max_length=1_000, json_schema_extra=ATOMIC)] = ()
    """Dollars of jobs by namespace; after 500 namespaces, further ones count under (other)."""
    before_period: CauseCosts | None = None
    """The sums over all pools when the current period began: what they have grown by since is this period's."""
    days: Annotated[tuple[DayOfCosts, ...], Field(max_length=DAYS_KEPT, json_schema_extra=ATOMIC)] = ()
    """The last 62 days on which something was spent, oldest first. A dollar counts on the day on which it was added."""

    @classmethod
    def from_domain(cls, costs: Costs) -> Self | None:
        """The sums as they are recorded; None before the first."""
        if costs.through is None:
            return None
        by_pool: dict[PoolId, dict[str, Money]] = {}
        for (pool, cause), amount in sorted(costs.by_pool.items()):
            by_pool.setdefault(pool, {})[cause.value] = amount
        return cls(
            through=costs.through,
            lifetime=costs.lifetime,
            pools=tuple(PoolCosts(pool=pool, **amounts) for pool, amounts in by_pool.items()),
            namespaces=_by_namespace(costs.by_namespace),
            before_period=CauseCosts(**{cause.value: amount for cause, amount in sorted(costs.before.items())})
            if costs.before
            else None,
            days=tuple([DayOfCosts.from_domain(day) for day in costs.days]),
        )

    def to_domain(self) -> Costs:
        """The sums as they were recorded."""
        return Costs(
            by_pool={
                (PoolId(item.pool), cause): amount for item in self.pools for cause, amount in item.by_cause().items()
            },
            by_namespace={item.namespace: item.job for item in self.namespaces},
            through=self.through,
            lifetime=self.lifetime or ZERO,
            before={} if self.before_period is None else self.before_period.by_cause(),
            days=tuple([day.to_domain() for day in self.days]),
        )
