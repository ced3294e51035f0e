"""The operator's own limits, as it writes them on its Lease for those who plan without it.

They are options of its process, so nobody else could know them.
"""

from __future__ import annotations

from collections.abc import Mapping

from charterer.api.names import ANNOTATION_MAX_HOURLY, ANNOTATION_MAX_NODES
from charterer.domain.money import Price
from charterer.domain.snapshot import OperatorLimits


def to_annotations(limits: OperatorLimits) -> Mapping[str, str]:
    """The annotations that say the limits; none for a limit that there is not."""
    written = {
        ANNOTATION_MAX_NODES: None if limits.nodes is None else str(limits.nodes),
        ANNOTATION_MAX_HOURLY: None if limits.hourly is None else limits.hourly.decimal(),
    }
    return {name: text for name, text in written.items() if text is not None}


def from_annotations(annotations: Mapping[str, str]) -> OperatorLimits:
    """The limits that these annotations say. ValueError naming the one that no operator wrote so."""
    nodes, hourly = annotations.get(ANNOTATION_MAX_NODES), annotations.get(ANNOTATION_MAX_HOURLY)
    if nodes is not None and not (nodes.isascii() and nodes.isdigit() and len(nodes) <= 9):
        raise ValueError(f"annotation {ANNOTATION_MAX_NODES} is {nodes!r}, and not a number of nodes")
    try:
        price = None if hourly is None else Price.parse(hourly)
    except ValueError as error:
        raise ValueError(f"annotation {ANNOTATION_MAX_HOURLY} is {hourly!r}: {error}") from error
    return OperatorLimits(None if nodes is None else int(nodes), price)
