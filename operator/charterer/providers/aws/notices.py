"""Warnings of interruption, and recommendations to rebalance, from an SQS queue that EventBridge fills."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from charterer.domain.ids import InstanceId, PoolId
from charterer.domain.pool import Notice
from charterer.domain.time import Instant, after, parse_instant
from charterer.providers.aws.calls import Calls
from charterer.providers.aws.permissions import Call
from charterer.providers.errors import ProviderError

logger = logging.getLogger(__name__)

_MOST_BATCHES: Final = 20
_BATCH: Final = 10
_HIDDEN_SECONDS: Final = 20
_LEAD_SECONDS: Final[dict[str, float]] = {
    "EC2 Spot Instance Interruption Warning": 120.0,
    "EC2 Capacity Reservation Instance Interruption Warning": 120.0,
    "EC2 Interruptible Capacity Reservation Instance Interruption Warning": 120.0,
}
"""From the event to the end of the instance, by the event's detail-type. All other events but the next are deleted.
Source: EC2 User Guide, spot-instance-termination-notices and monitor-interruptible-cr."""
_REBALANCE: Final = "EC2 Instance Rebalance Recommendation"
"""The instance is at elevated risk; no time is said, and the interruption may never come.
Source: EC2 User Guide, rebalance-recommendations."""
_RISK_SECONDS: Final = 3600.0
"""For how long a recommendation counts."""


@dataclass(frozen=True, slots=True)
class _Message:
    """``until``: when its time has passed."""

    receipt: str
    notice: Notice
    until: Instant


class Notices:
    """Messages of the queues of a region and role. A message stays in its queue until its time has passed, so a new
    process gets it again."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._known: dict[str, dict[str, _Message]] = {}

    async def receive(self, pool: PoolId, queue: str, now: Instant) -> None:
        """Read what is on the queue, once for all pools that name it. ``pool``: the pool that errors name."""
        messages = self._known.setdefault(queue, {})
        over: list[str] = []
        for _ in range(_MOST_BATCHES):
            params = {"QueueUrl": queue, "MaxNumberOfMessages": _BATCH, "VisibilityTimeout": _HIDDEN_SECONDS}
            received = (await self._calls(pool, Call.RECEIVE, params)).get("Messages", ())
            for message in received:
                read = _read(message["ReceiptHandle"], message["Body"])
                if read is None:
                    over.append(message["ReceiptHandle"])
                else:
                    messages[message["MessageId"]] = read
            if len(received) < _BATCH:
                break
        for id, message in list(messages.items()):
            if message.until < now:
                over.append(message.receipt)
                del messages[id]
        for receipt in over:
            await self._delete(pool, queue, receipt)

    def of(self, queue: str, alive: Collection[InstanceId]) -> Sequence[Notice]:
        """The warnings about instances that are alive, as far as they were received from the queue."""
        messages = self._known.get(queue, {}).values()
        told = {message.notice: message.until for message in messages if message.notice.instance in alive}
        return sorted(told, key=lambda notice: (told[notice], notice.instance))

    async def _delete(self, pool: PoolId, queue: str, receipt: str) -> None:
        try:
            await self._calls(pool, Call.DELETE_MESSAGE, {"QueueUrl": queue, "ReceiptHandle": receipt})
        except ProviderError as error:  # it comes again and is deleted then
            logger.warning("%s", error)


def _read(receipt: str, body: str) -> _Message | None:
    """The warning in a message; None for another event."""
    try:
        event: Any = json.loads(body)
        kind = event["detail-type"]
        lead = _RISK_SECONDS if kind == _REBALANCE else _LEAD_SECONDS.get(kind)
        if lead is None:
            return None
        instance, until = event["detail"]["instance-id"], after(parse_instant(event["time"]), lead)
        if not isinstance(instance, str):
            raise TypeError("an instance id is a string")
    except (ValueError, KeyError, TypeError, RecursionError):
        logger.warning("a message of the interruption queue is no event of EC2: %.200s", body)
        return None
    if kind == _REBALANCE:
        return _Message(receipt, Notice(InstanceId(instance), None, certain=False, why=kind), until)
    return _Message(receipt, Notice(InstanceId(instance), until), until)
