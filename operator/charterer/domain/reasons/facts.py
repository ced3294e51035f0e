"""The facts of a reason: data only. ``sentences`` says them."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.option import Option
from charterer.domain.reasons.facts_of_jobs import JobFact
from charterer.domain.reasons.facts_of_nodes import NodeFact
from charterer.domain.reasons.facts_of_offers import OfferFact
from charterer.domain.reasons.facts_of_options import OptionFact
from charterer.domain.reasons.facts_of_waits import WaitFact


@dataclass(frozen=True, slots=True)
class Both:
    """Facts that are told one after the other."""

    first: Facts
    then: Facts


@dataclass(frozen=True, slots=True)
class Wanted:
    """A job waits for ``option``, because of ``why``."""

    option: Option
    why: Facts


@dataclass(frozen=True, slots=True)
class RunsOn:
    """A job runs on, but could not start again because of ``why``."""

    why: Facts


@dataclass(frozen=True, slots=True)
class OnlyObserved:
    """The budget only observes, so that what would follow from ``why`` is not done."""

    why: Facts


Facts = JobFact | NodeFact | OfferFact | OptionFact | WaitFact | Both | Wanted | RunsOn | OnlyObserved
"""What each kind of sentence tells. All can be compared and hashed."""
