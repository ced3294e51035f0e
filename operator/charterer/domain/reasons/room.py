"""The function to which each module of sentences adds its own."""

from __future__ import annotations

from functools import singledispatch

from charterer.domain.reasons.facts import Facts


@singledispatch
def tell(facts: Facts) -> str:
    """The sentence of the facts' kind; TypeError for a kind that has none."""
    raise TypeError(f"{type(facts).__name__} has no sentence")
