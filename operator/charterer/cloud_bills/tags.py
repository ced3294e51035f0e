"""Charterer's tags and labels as bills write them.

AWS changes keys: ``charterer.dev:pool`` is ``user_charterer_dev_pool`` in CUR 2.0, and may have the prefix ``user:`` in
FOCUS. Only tags that were activated as cost allocation tags are on a bill.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from charterer.ledger.reconciliation.bill_line import OurTags

_FIELDS: Final[Mapping[str, str]] = {
    "charterer_dev_cluster": "cluster",
    "charterer_dev_pool": "pool",
    "charterer_dev_rental": "rental",
    "charterer_cluster": "cluster",
    "charterer_pool": "pool",
    "karpenter_sh_nodeclaim": "claim",
}
"""What a tag tells, by its key with underscores for all that is neither letter nor digit."""
_PREFIX: Final = re.compile(r"^(user|resourcetags?)[_:/]")


def our_tags(*texts: str | None) -> OurTags:
    """What tags tell, from JSON: an object, or an array of objects with key and value. Other text tells nothing."""
    found: dict[str, str] = {}
    for text in texts:
        for key, value in _pairs(text):
            name = _FIELDS.get(re.sub(r"[^a-z0-9]", "_", _PREFIX.sub("", key.lower())))
            if name is not None and value:
                found.setdefault(name, value)
    return OurTags(**found)


def _pairs(text: str | None) -> Iterator[tuple[str, str]]:
    try:
        parsed = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return
    if isinstance(parsed, dict):
        yield from ((key, value) for key, value in parsed.items() if isinstance(value, str))
    elif isinstance(parsed, list):
        for each in parsed:
            if isinstance(each, dict):
                lower = {str(key).lower(): value for key, value in each.items()}
                key, value = lower.get("key"), lower.get("value")
                if isinstance(key, str) and isinstance(value, str):
                    yield key, value
