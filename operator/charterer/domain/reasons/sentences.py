"""The one place that makes sentences of facts: how Charterer speaks of its reasons is changed in these modules only.

docs/reasons.md shows every sentence.
"""

from __future__ import annotations

from typing import Final

from charterer.domain.reasons import (
    facts,
    sentences_of_jobs,
    sentences_of_nodes,
    sentences_of_offers,
    sentences_of_options,
    sentences_of_waits,
)
from charterer.domain.reasons.phrases import name
from charterer.domain.reasons.room import tell

MODULES: Final = (sentences_of_jobs, sentences_of_nodes, sentences_of_offers, sentences_of_options, sentences_of_waits)
"""They add their sentences to ``tell`` when they are imported."""


def sentence(of: facts.Facts) -> str:
    """The facts in words, for people, with the numbers."""
    return tell(of)


@tell.register
def _(both: facts.Both) -> str:
    return f"{tell(both.first)}; {tell(both.then)}"


@tell.register
def _(wanted: facts.Wanted) -> str:
    return f"{name(wanted.option)} wanted: {tell(wanted.why)}"


@tell.register
def _(job: facts.RunsOn) -> str:
    return f"it runs on, but could not start again: {tell(job.why)}"


@tell.register
def _(observed: facts.OnlyObserved) -> str:
    return f"nothing is done in mode Observe: {tell(observed.why)}"
