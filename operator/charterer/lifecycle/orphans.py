"""Orphans: machines that no rental asked for. Each gets a rental, so that it is paid for and ended."""

from __future__ import annotations

import hashlib
import re

from charterer.domain.ids import PoolId, RentalId
from charterer.domain.money import Price
from charterer.domain.pool import Instance, Pool

_NAME_LIMIT = 253


def worst_price(pool: Pool, instance: Instance) -> Price:
    """The highest price an hour of the instance that is known: quoted or already charged."""
    quoted = [] if pool.quote is None else [pool.quote.worst]
    return max([*quoted, *(segment.price for segment in instance.segments)], default=Price(0))


def orphan_name(pool: PoolId, group: str, instance: Instance) -> RentalId:
    """``<group>-o-<instance>``; a hash tells instances apart whose ids an object's name cannot spell.

    ``group``: the cloud's own identifier of the group, of which a hash is used, so that two pools of one group give an
    instance the same name and the second creation meets the first. It is the pool's name where the cloud gives none.
    """
    prefix = hashlib.sha256(group.encode()).hexdigest()[:10] if group else pool
    plain = re.sub(r"[^a-z0-9-]+", "-", instance.id.lower()).strip("-")
    room = _NAME_LIMIT - len(prefix) - len("-o-")
    if plain != instance.id or len(plain) > room:
        digest = hashlib.sha256(instance.id.encode()).hexdigest()[:10]
        plain = f"{plain[: max(room - 11, 0)]}-{digest}".strip("-")
    return RentalId(f"{prefix}-o-{plain}")
