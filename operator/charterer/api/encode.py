"""Domain values to status fields, for server-side apply.

``*_record`` gives all fields of the field manager ``charterer``, ``*_view`` all of ``charterer-status``; each is the
whole value of ``status`` in that manager's apply: what is left out is given up and so removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from charterer.api.models import base, gpubudget, gpupool, gpurental, speedupprofile, trainingjob
from charterer.api.models.base import Json, dump
from charterer.api.view import BudgetView, Condition, InvalidView, JobView, PoolView, ProfileView
from charterer.domain.budget import Budget
from charterer.domain.job import Allocation, Job, Placement, Progress, RunRecord
from charterer.domain.money import ZERO, Money, total
from charterer.domain.option import Option
from charterer.domain.pool import Pool
from charterer.domain.rental import Rental
from charterer.domain.time import Instant

_MESSAGE_LIMIT: Final = 4096
_CENT: Final = 10_000
_MINUTE: Final = 60_000_000


def job_record(job: Job) -> Json:
    """TrainingJob.status, record: of the ended runs only the latest are kept, of those before them what they cost."""
    dropped = job.records[: -trainingjob.RUNS_KEPT]
    earlier = job.earlier_cost + total(one.cost or ZERO for one in dropped)
    return dump(
        trainingjob.TrainingJobRecord(
            allocation=None if job.allocation is None else _allocation(job.allocation),
            replaced=tuple(_allocation(one) for one in job.replaced),
            last_run=job.last_run,
            runs=tuple(_run(record) for record in job.records[-trainingjob.RUNS_KEPT :]),
            earlier_cost=None if earlier == ZERO else earlier,
            failures=job.failures,
            restarts=job.restarts,
            finish=None
            if job.finish is None
            else trainingjob.FinishStatus(
                kind=job.finish.kind,
                at=job.finish.at,
                reason=job.finish.reason,
                message=_short(job.finish.message),
            ),
            invalid=trainingjob.InvalidStatus(generation=job.generation, message=_short(job.invalid))
            if job.invalid
            else None,
            progress=None if job.progress is None else _progress(job.progress),
            predicted=job.predicted,
            moves=job.moves[-trainingjob.MOVES_KEPT :],
        )
    )


def _short(message: str) -> str:
    return message if len(message) <= _MESSAGE_LIMIT else message[: _MESSAGE_LIMIT - 1] + "…"


def _allocation(allocation: Allocation) -> trainingjob.AllocationStatus:
    return trainingjob.AllocationStatus(
        run=allocation.run,
        option=_option(allocation.option),
        placements=_placements(allocation.placements),
        since=allocation.since,
    )


def _option(option: Option) -> trainingjob.OptionStatus:
    return trainingjob.OptionStatus(
        pool=option.pool,
        gpus=option.gpus,
        speed=option.speed,
        hourly=option.price,
        entry_seconds=option.entry_seconds,
        entry_cost=None if option.entry_cost == ZERO else option.entry_cost,
        variant=option.variant,
        trial=option.trial,
    )


def _placements(placements: Iterable[Placement]) -> tuple[trainingjob.PlacementStatus, ...]:
    return tuple(trainingjob.PlacementStatus(rental=one.rental, gpus=one.gpus) for one in placements)


def _run(record: RunRecord) -> trainingjob.RunStatus:
    return trainingjob.RunStatus(
        number=record.number,
        outcome=record.outcome,
        option=_option(record.option),
        placements=_placements(record.placements),
        since=record.since,
        until=record.until,
        message=_short(record.message),
        cost=record.cost,
    )


def _progress(progress: Progress) -> trainingjob.ProgressStatus:
    return trainingjob.ProgressStatus(
        run=progress.run,
        fraction=progress.fraction,
        step=progress.step,
        throughput=progress.throughput,
        at=progress.at,
    )


def rental_record(rental: Rental) -> Json:
    """GPURental.status."""
    return dump(
        gpurental.GPURentalRecord(
            phase=rental.phase,
            instance=rental.instance,
            provider_id=rental.provider_id,
            node=rental.node,
            launched_at=rental.launched,
            ready_at=rental.ready,
            ended_at=rental.ended,
            segments=tuple(gpurental.SegmentStatus(since=one.since, hourly=one.price) for one in rental.segments),
            billing_minimum_seconds=rental.billing_minimum_seconds,
            cost=rental.cost,
            released_because=_short(rental.released_because),
        )
    )


def budget_record(budget: Budget) -> Json:
    """GPUBudget.status, record: the ledger. Of past periods only the latest are kept."""
    balance = budget.balance
    if balance is None:
        return {}
    return dump(
        gpubudget.GPUBudgetRecord(
            period_start=balance.period_start,
            settled=balance.settled,
            lifetime=balance.lifetime,
            folded=tuple(sorted(balance.folded)),
            history=tuple(
                gpubudget.PeriodSpent(start=one.start, spent=one.spent, aim=one.aim)
                for one in balance.history[-gpubudget.PERIODS_KEPT :]
            ),
            carried=None if balance.carried == ZERO else balance.carried,
            classes=tuple(
                gpubudget.ClassCost(
                    name=str(name),
                    jobs=one.jobs,
                    predicted=one.predicted,
                    actual=one.actual,
                    squares=one.squares,
                    since=one.since,
                    at=one.at,
                    came=one.came,
                    came_lately=one.came_lately,
                )
                for name, one in sorted(balance.experience.items())
            ),
            jobs_cost=None if balance.jobs_cost == ZERO else balance.jobs_cost,
            counted_jobs=tuple(
                gpubudget.CountedJobStatus(uid=uid, finished=finished)
                for uid, finished in sorted(balance.counted.items())
            ),
            counted_through=balance.counted_through,
        )
    )


def pool_record(pool: Pool) -> Json:
    """GPUPool.status, record: how long the pool cools, and why."""
    return dump(
        gpupool.GPUPoolRecord(
            cooled_until=pool.cooled_until,
            cooled_because=pool.cooled_because,
            cooled_message=_short(pool.cooled_message),
        )
    )


def job_view(view: JobView) -> Json:
    """TrainingJob.status, view. The ETA is rounded up to the minute and money to the cent, to be written less often."""
    return dump(
        trainingjob.TrainingJobView(
            observed_generation=view.observed_generation,
            state=view.state,
            gpus=view.gpus,
            want_gpus=view.want_gpus,
            pool=view.pool,
            progress_percent=None if view.progress is None else int(view.progress * 100),
            eta=None if view.eta is None else Instant(-(-view.eta // _MINUTE) * _MINUTE),
            cost=_cents(view.cost),
            why=view.why,
            conditions=_conditions(view.conditions, view.observed_generation),
        )
    )


def budget_view(view: BudgetView) -> Json:
    """GPUBudget.status, view; money to the cent."""
    return dump(
        gpubudget.GPUBudgetView(
            observed_generation=view.observed_generation,
            state=view.state,
            spent=_cents(view.spent),
            committed=_cents(view.committed),
            forecast=_cents(view.forecast),
            forecast_low=_cents(view.forecast_low),
            forecast_high=_cents(view.forecast_high),
            remaining=_cents(view.remaining),
            hourly=view.hourly,
            pays_per_hour_saved=_cents(view.pays_per_hour_saved),
            attribution=tuple(
                gpubudget.SpentOn(name=one.name, spent=_cents(one.spent))
                for one in view.attribution[: gpubudget.ATTRIBUTIONS_SHOWN]
            ),
            conditions=_conditions(view.conditions, view.observed_generation),
        )
    )


def pool_view(view: PoolView) -> Json:
    """GPUPool.status, view."""
    offering, quote = view.offering, view.quote
    return dump(
        gpupool.GPUPoolView(
            observed_generation=view.observed_generation,
            state=view.state,
            offering=None
            if offering is None
            else gpupool.PoolOffering(
                gpu_type=offering.gpu_type,
                gpus_per_node=offering.gpus_per_node,
                instance_type=offering.instance_type,
                zone=offering.zone,
            ),
            quote=None
            if quote is None
            else gpupool.PoolQuote(
                hourly=quote.price,
                worst_hourly=quote.worst,
                billing_minimum_seconds=quote.billing_minimum_seconds,
                source=quote.source,
                as_of=quote.as_of,
            ),
            nodes=view.nodes,
            ready_nodes=view.ready_nodes,
            gpus_in_use=view.gpus_in_use,
            scarcity_price=view.scarcity,
            conditions=_conditions(view.conditions, view.observed_generation),
        )
    )


def profile_view(view: ProfileView) -> Json:
    """SpeedupProfile.status, all of it a view."""
    return dump(
        speedupprofile.SpeedupProfileView(
            observed_generation=view.observed_generation,
            state=view.state,
            conditions=_conditions(view.conditions, view.observed_generation),
        )
    )


def invalid_view(view: InvalidView) -> Json:
    """The view of an object of any kind that could not be decoded."""
    return dump(
        speedupprofile.SpeedupProfileView(
            observed_generation=view.observed_generation,
            state="Invalid",
            conditions=_conditions(view.conditions, view.observed_generation),
        )
    )


def _cents(money: Money) -> Money:
    return Money((money.micros + _CENT // 2) // _CENT * _CENT)


def _conditions(conditions: Iterable[Condition], generation: int) -> tuple[base.Condition, ...]:
    return tuple(
        base.Condition(
            type=one.type,
            status=one.status.value,
            reason=one.reason,
            message=_short(one.message),
            last_transition_time=one.since,
            observed_generation=generation,
        )
        for one in conditions
    )
