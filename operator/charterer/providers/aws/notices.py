"""Warnings of interruption from an SQS queue that EventBridge fills."""

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
}
"""From the event to the end of the instance, by the event's detail-type; other events say no time and are deleted."""


@dataclass(frozen=True, slots=True)
class _Message:
    receipt: str
    notice: Notice | None


class Notices:
    """What the queues of a region and role said. A message stays in its queue until its time has passed, so that a new
    process gets it again."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._known: dict[str, dict[str, _Message]] = {}

    async def of_queue(self, pool: PoolId, queue: str, alive: Collection[InstanceId], now: Instant) -> Sequence[Notice]:
        """The warnings about instances that are alive. ``pool``: the pool that errors name."""
        messages = self._known.setdefault(queue, {})
        for _ in range(_MOST_BATCHES):
            params = {"QueueUrl": queue, "MaxNumberOfMessages": _BATCH, "VisibilityTimeout": _HIDDEN_SECONDS}
            received = (await self._calls(pool, Call.RECEIVE, params)).get("Messages", ())
            for message in received:
                messages[message["MessageId"]] = _Message(message["ReceiptHandle"], _notice(message["Body"]))
            if len(received) < _BATCH:
                break
        for id, message in list(messages.items()):
            if message.notice is None or message.notice.at < now:
                await self._delete(pool, queue, message.receipt)
                del messages[id]
        told = (message.notice for message in messages.values() if message.notice is not None)
        return sorted({notice for notice in told if notice.instance in alive}, key=lambda notice: notice.at)

    async def _delete(self, pool: PoolId, queue: str, receipt: str) -> None:
        try:
            await self._calls(pool, Call.DELETE_MESSAGE, {"QueueUrl": queue, "ReceiptHandle": receipt})
        except ProviderError as error:  # it comes again and is deleted then
            logger.warning("%s", error)


def _notice(body: str) -> Notice | None:
    """The warning in a message; None for another event."""
    try:
        event: Any = json.loads(body)
        seconds = _LEAD_SECONDS.get(event["detail-type"])
        if seconds is None:
            return None
        return Notice(InstanceId(event["detail"]["instance-id"]), after(parse_instant(event["time"]), seconds))
    except (ValueError, KeyError, TypeError):
        logger.warning("a message of the interruption queue is no event of EC2: %.200s", body)
        return None
