"""What a cloud's own object, such as an instance group, says of its nodes before one is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from charterer.api.metadata import thousandths
from charterer.api.models.labels import is_label
from charterer.api.node_demands import node_traits
from charterer.domain.nodes.demands import NodeTaint, NodeTraits, TaintEffect

_MOST: Final = 64
"""The most labels, taints and resources that are read of an object. An Auto Scaling group has 50 tags at most."""
_EFFECTS: Final[Mapping[str, TaintEffect]] = {"NoSchedule": "NoSchedule", "NoExecute": "NoExecute"}
"""Effects that keep pods off. A taint with PreferNoSchedule keeps none off, and is passed over."""


@dataclass(frozen=True, slots=True)
class NodeTemplate:
    """Labels by key, taints (key and ``VALUE:EFFECT``) and quantities of resources by name, in the object's words.

    What no Node can have is passed over: the object's owner wrote it, maybe for others.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[tuple[str, str]] = ()
    resources: Mapping[str, str] = field(default_factory=dict)

    def traits(self, machine: Mapping[str, str]) -> NodeTraits:
        """What each node shows. ``machine``: resources of its machine, of which it has no more than that."""
        labels = _first(each for each in sorted(self.labels.items()) if is_label(*each))
        resources = _first(each for each in sorted(self.resources.items()) if _is_amount(*each))
        taints = dict.fromkeys(taint for each in self.taints if (taint := _taint(*each)) is not None)
        return node_traits("", labels, islice(taints, _MOST), {**machine, **resources})


NO_TEMPLATE: Final = NodeTemplate()
"""What an object says that says nothing."""


def _first(entries: Iterable[tuple[str, str]]) -> dict[str, str]:
    return dict(islice(entries, _MOST))


def _is_amount(resource: str, quantity: str) -> bool:
    """Whether a Node may have that much of that."""
    try:
        thousandths(quantity)
    except ValueError:
        return False
    return is_label(resource, "")


def _taint(key: str, text: str) -> NodeTaint | None:
    """The taint; None where it is none, or keeps no pod off."""
    value, _, named = text.partition(":")
    effect = _EFFECTS.get(named)
    return NodeTaint(key, value, effect) if effect is not None and is_label(key, value) else None
