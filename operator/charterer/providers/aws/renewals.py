"""The heartbeat of instances that end themselves if nobody renews them. It is two tags, which a script in each instance
reads.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from charterer.clouds.aws import AwsFleet, AwsGroup
from charterer.domain.ids import PoolId
from charterer.domain.pool import Pool
from charterer.domain.time import Instant, after, format_instant, parse_instant, seconds_between
from charterer.providers.aws.calls import Calls
from charterer.providers.aws.listing import ListedInstance
from charterer.providers.aws.permissions import ABANDON_TAG, RENEWED_TAG, Call
from charterer.providers.errors import InvalidRequest, NotFoundInCloud, ProviderError

logger = logging.getLogger(__name__)

NEVER: Final = "never"
_PARTS: Final = 4
"""Number of times that an instance is renewed within the time after which it ends itself."""
_FRESH_SECONDS: Final = 300.0
"""Seconds for which a list is used. While there are pools to survey, surveys make newer lists."""
_AT_ONCE: Final = 500
"""Most instances of one call. CreateTags accepts 1000."""


def abandon_tags(cloud: AwsFleet | AwsGroup) -> Mapping[str, str]:
    """The tags that an instance needs from its launch on.

    For the same order they are the same, because the token of a repeated call demands the same content.
    """
    return {} if cloud.abandon_seconds is None else {ABANDON_TAG: str(cloud.abandon_seconds)}


class InstanceRenewals:
    """Renews the instances of the last list.

    ``clock``: seconds of a clock that never goes back. It is used while no list can be read.
    """

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._clock = clock
        self._rows: Sequence[ListedInstance] = ()
        self._asked = Instant(0)
        self._since: float | None = None

    def listed(self, rows: Sequence[ListedInstance], asked: Instant) -> None:
        """Receive the list of all instances of this cluster at the cloud's time ``asked``."""
        self._rows, self._asked, self._since = rows, asked, self._clock()

    @property
    def outdated(self) -> bool:
        """Whether the last list is so old that a new one is needed."""
        return self._since is None or self._clock() - self._since > _FRESH_SECONDS

    async def renew(self, pools: Sequence[Pool]) -> None:
        """Renew the instances of these pools if one of them is due. Instances with the same limit are renewed in one
        call.

        An instance's own tags say whether it ends itself. If the pool says something else, the tags are corrected. The
        last error is raised after everything has been tried.
        """
        if self._since is None:
            return
        now = after(self._asked, self._clock() - self._since)
        wanted = {pool.id: pool.cloud.abandon_seconds for pool in pools if isinstance(pool.cloud, AwsFleet | AwsGroup)}
        limits: dict[int | None, list[ListedInstance]] = defaultdict(list)
        for row in self._rows:
            if row.alive and row.pool in wanted and (wanted[row.pool] is not None or ABANDON_TAG in row.tags):
                limits[wanted[row.pool]].append(row)
        failed: ProviderError | None = None
        for seconds, rows in limits.items():
            if any(_due(row, seconds, now) for row in rows):
                tags = {ABANDON_TAG: NEVER if seconds is None else str(seconds), RENEWED_TAG: format_instant(now)}
                for first in range(0, len(rows), _AT_ONCE):
                    failed = await self._tag(rows[first : first + _AT_ONCE], tags) or failed
        if failed is not None:
            raise failed

    async def _tag(self, rows: Sequence[ListedInstance], tags: Mapping[str, str]) -> ProviderError | None:
        """Tag all instances in one call. If EC2 refuses one of them, tag each by itself, so that the refused instance
        does not make the others end.
        """
        try:
            await self._create(rows, tags)
        except (NotFoundInCloud, InvalidRequest) as error:
            if len(rows) == 1:
                return error
            last: ProviderError | None = None
            for row in rows:
                last = await self._tag([row], tags) or last
            return last
        except ProviderError as error:
            return error
        return None

    async def _create(self, rows: Sequence[ListedInstance], tags: Mapping[str, str]) -> None:
        pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
        pool = PoolId(rows[0].pool)
        await self._calls(pool, Call.CREATE_TAGS, {"Resources": [row.id for row in rows], "Tags": pairs})


def _due(row: ListedInstance, seconds: int | None, now: Instant) -> bool:
    if row.tags.get(ABANDON_TAG, "") != (NEVER if seconds is None else str(seconds)):
        return True
    return seconds is not None and abs(seconds_between(_renewed(row), now)) >= seconds / _PARTS


def _renewed(row: ListedInstance) -> Instant:
    """When an instance was last renewed. If it was never renewed, or if the tag cannot be read, its launch counts."""
    try:
        return parse_instant(row.tags[RENEWED_TAG])
    except (KeyError, ValueError):
        return row.launched
