"""docs/reasons.md has every sentence that tells a reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from charterer.api.schema import main
from charterer.api.words.page import EXAMPLES
from charterer.domain.plan import ReasonCode
from charterer.domain.reasons import fact, jobs, nodes, options, waits
from charterer.domain.reasons.fact import Fact

ROOT = Path(__file__).resolve().parents[3]

KINDS = [
    kind
    for module in (fact, jobs, nodes, options, waits)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Fact) and is_dataclass(kind) and kind.__module__ == module.__name__
]


def within(told: object) -> Iterator[type]:
    """The kind of a fact, and of those that it holds."""
    if isinstance(told, Fact):
        yield type(told)
        assert is_dataclass(told)
        for each in fields(told):
            yield from within(getattr(told, each.name))


def test_each_word_has_examples() -> None:
    assert set(EXAMPLES) == set(ReasonCode)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_of_facts_has_an_example(kind: type) -> None:
    assert kind in {found for examples in EXAMPLES.values() for told in examples for found in within(told)}


def test_facts_can_be_compared_and_hashed_and_are_all_told_differently() -> None:
    examples = {told for told_of_word in EXAMPLES.values() for told in told_of_word}
    assert len({told.sentence() for told in examples}) == len(examples)


def test_the_page_is_what_would_be_generated() -> None:
    done = CliRunner().invoke(main, ["--check", "--reasons", str(ROOT / "docs/reasons.md")])
    assert (done.exit_code, done.output) == (0, "")
