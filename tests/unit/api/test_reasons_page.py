"""docs/reasons.md has every sentence that tells a reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner

from charterer.api.schema import main
from charterer.api.words.reason_examples import EXAMPLES
from charterer.domain.plan import ReasonCode
from charterer.domain.reasons.facts import Facts
from charterer.domain.reasons.sentences import sentence

ROOT = Path(__file__).resolve().parents[3]

KINDS = get_args(Facts)


def within(facts: object) -> Iterator[type]:
    """The kind of the facts, and of those that they hold."""
    if isinstance(facts, KINDS):
        yield type(facts)
        for each in fields(facts):
            yield from within(getattr(facts, each.name))


def test_each_word_has_examples() -> None:
    assert set(EXAMPLES) == set(ReasonCode)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_of_facts_has_an_example(kind: type) -> None:
    assert kind in {found for examples in EXAMPLES.values() for facts in examples for found in within(facts)}


def test_facts_can_be_compared_and_hashed_and_are_all_told_differently() -> None:
    examples = {facts for told in EXAMPLES.values() for facts in told}
    assert len({sentence(facts) for facts in examples}) == len(examples)


def test_the_page_is_what_would_be_generated() -> None:
    done = CliRunner().invoke(main, ["--check", "--reasons", str(ROOT / "docs/reasons.md")])
    assert (done.exit_code, done.output) == (0, "")
