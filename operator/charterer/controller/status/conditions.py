"""The conditions of several kinds. The transition time of a condition stays until its status changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from charterer.api.models.base import Condition, ConditionStatus
from charterer.api.names import ANNOTATION_CONFIRMED_PRICE, ANNOTATION_STOP, ConditionType
from charterer.domain.money import Price
from charterer.domain.pool import Pool
from charterer.domain.snapshot import Snapshot, Stop
from charterer.domain.time import Instant
from charterer.gpu_types import data_sheet
from charterer.providers.provider import PreflightFinding
from charterer.sentences import count


def condition(
    kind: ConditionType, holds: bool | None, reason: str, message: str, now: Instant, generation: int
) -> Condition:
    """A condition as observed now, for a spec of this generation. ``holds``: None means Unknown."""
    status = ConditionStatus.UNKNOWN if holds is None else ConditionStatus.TRUE if holds else ConditionStatus.FALSE
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=now,
        observed_generation=generation,
    )


def stop_in_words(stop: Stop) -> str:
    """A clause on what a stopped operator does."""
    return "nothing is rented and all nodes are ended" if stop is Stop.DRAIN else "nothing is rented"


def stopped(snapshot: Snapshot, generation: int) -> tuple[Condition, ...]:
    """The budget's condition that somebody has stopped the operator, or none if the operator is not stopped."""
    if snapshot.stop is None:
        return ()
    resumed = f"`charterer resume`, which takes the annotation {ANNOTATION_STOP} from the operator's Namespace"
    message = f"a person has stopped the operator: {stop_in_words(snapshot.stop)} until {resumed}"
    reason = "Drained" if snapshot.stop is Stop.DRAIN else "NothingRented"
    return (condition(ConditionType.STOPPED, True, reason, message, snapshot.now, generation),)


def preflight(pool: Pool, findings: Sequence[PreflightFinding], snapshot: Snapshot) -> Iterable[Condition]:
    """The condition on the pool's preflight, or none before the first preflight."""
    if not findings:
        return
    failed = [f"{finding.subject}: {finding.message}" for finding in findings if not finding.well]
    message = "; ".join(failed) or f"{count(len(findings), 'check')} passed"
    reason = "ChecksFailed" if failed else "ChecksPassed"
    yield condition(ConditionType.PREFLIGHT, not failed, reason, message, snapshot.now, pool.generation)


def price_held(pool: Pool, listed: Price, snapshot: Snapshot) -> Condition:
    """The condition that a price is held, with the old and the new price."""
    confirm = f"kubectl annotate --overwrite gpupool {pool.id} {ANNOTATION_CONFIRMED_PRICE}={listed.decimal()}"
    reason = "PriceUnlikeOthers" if pool.quote is None else "PriceMoved"
    if pool.quote is None:
        message = (
            f"the cloud asks {listed} for a node, for each GPU and each processor less than a third or more than three "
            "times of what another pool's node with the same GPUs costs: nothing is rented until it is confirmed"
        )
    else:
        message = (
            f"the cloud asks {listed} for a node and asked {pool.quote.list_price} before, which counts until the new "
            "price is confirmed"
        )
    said = f"{message}: {confirm}, or set spec.price.hourly"
    return condition(ConditionType.PRICE_HELD, True, reason, said, snapshot.now, pool.generation)


def speed_guessed(pool: Pool, snapshot: Snapshot) -> Iterable[Condition]:
    """The condition that the speed of the pool's GPUs is a guess until a job has run there. If the GPUs have a data
    sheet, there is no such condition.
    """
    if pool.offering is None or data_sheet(pool.offering.gpu_type) is not None:
        return
    message = (
        f"Charterer knows no data sheet of GPU type {pool.offering.gpu_type}: until jobs of a class report from there, "
        "their speed is guessed from its price, as what a dollar buys of the GPU types that it knows; a curve of the "
        "type in spec.curves of the SpeedupProfile says it"
    )
    yield condition(ConditionType.SPEED_GUESSED, True, "NoDataSheet", message, snapshot.now, pool.generation)


def dated(conditions: Iterable[Condition], before: Iterable[Condition]) -> tuple[Condition, ...]:
    """The conditions. If a condition has the same status as in ``before``, it keeps the transition time from
    ``before``.
    """
    earlier = {(condition.type, condition.status): condition.last_transition_time for condition in before}
    return tuple(
        condition
        if (since := earlier.get((condition.type, condition.status))) is None
        else condition.model_copy(update={"last_transition_time": since})
        for condition in conditions
    )
