"""Decoding GPUBudgets."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from charterer.api.metadata import ObjectMeta, Raw
from charterer.api.models import gpubudget
from charterer.api.names import FINALIZER_IN_USE
from charterer.domain.budget import Balance, Budget, ClassHistory, MoveLimits, PastPeriod, Selector
from charterer.domain.ids import BudgetId, ClassId
from charterer.domain.money import ZERO
from charterer.domain.period import QuietHours


def budget(raw: Raw) -> Budget:
    """A GPUBudget with its balance; InvalidObject when its time zone is not known here."""
    meta = ObjectMeta.of("GPUBudget", raw)
    spec = meta.read(gpubudget.GPUBudgetSpec, "spec", raw)
    try:
        ZoneInfo(spec.time_zone)
    except (LookupError, ValueError, OSError) as error:
        message = f"{spec.time_zone!r} is no time zone that this operator knows; use an IANA name like Europe/Berlin"
        raise meta.invalid("spec.timeZone", "UnknownTimeZone", message) from error
    return Budget(
        id=BudgetId(meta.name),
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        created=meta.created,
        amount=spec.amount,
        time_zone=spec.time_zone,
        selector=_selector(spec.namespace_selector),
        mode=spec.mode,
        hard_limit=spec.hard_limit,
        max_hourly_rate=spec.max_hourly_rate,
        opening_spend=ZERO if spec.opening_spend is None else spec.opening_spend,
        weights=tuple((one.priority_class_name, one.weight) for one in spec.weights),
        balance=_balance(meta.read(gpubudget.GPUBudgetRecord, "status", raw)),
        deleting=meta.deleting,
        guarded=FINALIZER_IN_USE in meta.finalizers,
        carry_over_percent=spec.carry_over_percent,
        exploration_percent=spec.exploration_percent,
        moves=MoveLimits() if spec.moves is None else _moves(spec.moves),
    )


def _moves(moves: gpubudget.Moves) -> MoveLimits:
    quiet = (QuietHours(_minutes(one.start), _minutes(one.end), frozenset(one.days)) for one in moves.quiet_hours)
    return MoveLimits(moves.max_per_job_per_day, tuple(quiet))


def _minutes(day_time: str) -> int:
    hours, minutes = day_time.split(":")
    return int(hours) * 60 + int(minutes)


def _selector(selector: gpubudget.NamespaceSelector) -> Selector:
    return Selector(
        match_labels=tuple(sorted(selector.match_labels.items())),
        match_expressions=tuple((one.key, one.operator, one.values) for one in selector.match_expressions),
    )


def _balance(status: gpubudget.GPUBudgetRecord) -> Balance | None:
    if status.period_start is None:
        return None
    return Balance(
        period_start=status.period_start,
        settled=ZERO if status.settled is None else status.settled,
        lifetime=ZERO if status.lifetime is None else status.lifetime,
        folded=frozenset(status.folded),
        history=tuple(PastPeriod(one.start, one.spent, one.aim) for one in status.history),
        carried=ZERO if status.carried is None else status.carried,
        experience={
            ClassId.parse(one.name): ClassHistory(
                one.jobs, one.predicted, one.actual, one.squares, one.since, one.at, one.came, one.came_lately
            )
            for one in status.classes
        },
        jobs_cost=ZERO if status.jobs_cost is None else status.jobs_cost,
        counted={one.uid: one.finished for one in status.counted_jobs},
        counted_through=status.counted_through,
    )
