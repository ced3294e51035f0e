"""docs/reasons.md has every sentence that tells a reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner

from charterer.api.schema import main
from charterer.api.words.page import EXAMPLES
from charterer.domain.plan import ReasonCode
from charterer.domain.reasons import fact, jobs, nodes, options, waits
from charterer.domain.reasons.fact import Fact

ROOT = Path(__file__).resolve().parents[3]

KINDS = tuple(
    kind
    for module in (
        fact,
        jobs,
        nodes,
        options,
        options,
        waits,
        waits,
    )
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Fact) and kind.__module__ == module.__name__
)


def within(facts: object) -> Iterator[type]:
    """The kind of the facts, and of those that they hold."""
    if isinstance(fact, KINDS):
        yield type(fact)
        for each in fields(fact):
            yield from within(getattr(fact, each.name))


def test_each_word_has_examples() -> None:
    assert set(EXAMPLES) == set(ReasonCode)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_of_facts_has_an_example(kind: type) -> None:
    assert kind in {found for examples in EXAMPLES.values() for fact in examples for found in within(fact)}


def test_facts_can_be_compared_and_hashed_and_are_all_told_differently() -> None:
    examples = {fact for told in EXAMPLES.values() for fact in told}
    assert len({fact.sentence() for fact in examples}) == len(examples)


def test_the_page_is_what_would_be_generated() -> None:
    done = CliRunner().invoke(main, ["--check", "--reasons", str(ROOT / "docs/reasons.md")])
    assert (done.exit_code, done.output) == (0, "")
