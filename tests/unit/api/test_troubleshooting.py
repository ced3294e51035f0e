"""docs/troubleshooting.md has every word that the operator writes for people, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from charterer.api.models.gpubudget_status import BudgetState
from charterer.api.models.gpupool import PoolState
from charterer.api.models.kinds import KINDS
from charterer.api.models.speedupprofile import ProfileState
from charterer.api.models.trainingjob_status import JobState
from charterer.api.names import ConditionType
from charterer.api.schema import main
from charterer.api.words.conditions import CLOUD_REASONS, CONDITION_REASONS, CONDITION_TYPES
from charterer.api.words.jobs import FINISH_REASONS, JOB_STATES, REASONS
from charterer.api.words.page import TABLES
from charterer.api.words.words import (
    BUDGET_STATES,
    EVENT_REASONS,
    POOL_STATES,
    PROFILE_STATES,
    RENTAL_PHASES,
    RUN_EVENTS,
    Meaning,
)
from charterer.domain.job import RunOutcome
from charterer.domain.order import RefusalKind
from charterer.domain.plan import ReasonCode
from charterer.domain.rental import RentalPhase
from charterer.domain.steps import RunWarning
from charterer.providers import errors

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "operator/charterer"
REPORTING = ("controller/status", "controller/learning")
"""Where words are chosen as plain strings: for conditions and Events."""
NO_REASONS = frozenset(
    [kind.kind for kind in KINDS]
    + ["Node", "Adopt", "Allocate", "Cool", "Finish", "MarkEnded", "MarkReady", "Recall", "RecordOffer", "RecordRun"]
    + ["Conflict", "Observe", "OpenPeriod", "Release", "Rent", "Run", "True", "False"]
)
"""Words there that are no reasons: kinds, actions of Events, codes of API errors, ``Run<outcome>``, statuses."""
LITERAL = {**CONDITION_REASONS, **CLOUD_REASONS, **EVENT_REASONS, **FINISH_REASONS}


_WORD = re.compile(r"[A-Z][a-z]+([A-Z][a-z]*)*")


@cache
def calls() -> tuple[ast.Call, ...]:
    """All calls in the operator's source."""
    trees = (ast.parse(path.read_text()) for path in files("."))
    return tuple(node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call))


def documented() -> set[str]:
    return {str(word) for table in TABLES for word in table.words}


def files(*places: str) -> Iterator[Path]:
    for place in places:
        path = SOURCE / place
        yield from [path] if path.suffix else sorted(path.rglob("*.py"))


def strings(node: ast.AST) -> Iterator[str]:
    """All one-word CamelCase strings below a node, docstrings left out."""
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str) and _WORD.fullmatch(child.value):
            yield child.value


def reasons_of_calls(called: str, position: int) -> Iterator[str]:
    """The strings in one argument of all calls of a function or method of that name."""
    for call in calls():
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name == called and len(call.args) > position:
            yield from strings(call.args[position])


@pytest.mark.parametrize(
    ("enum", "words"),
    [
        (JobState, JOB_STATES),
        (ReasonCode, REASONS),
        (BudgetState, BUDGET_STATES),
        (PoolState, POOL_STATES),
        (ProfileState, PROFILE_STATES),
        (RentalPhase, RENTAL_PHASES),
        (ConditionType, CONDITION_TYPES),
    ],
)
def test_every_word_of_an_enum_has_a_meaning(enum: type[StrEnum], words: Mapping[str, Meaning]) -> None:
    assert set(words) == set(enum)


def test_every_way_in_which_a_run_or_a_launch_ends_has_a_meaning() -> None:
    assert set(RUN_EVENTS) == {f"Run{outcome}" for outcome in RunOutcome}
    assert set(RunWarning) <= set(EVENT_REASONS)
    assert set(RefusalKind) <= set(CLOUD_REASONS)


def test_every_error_of_a_cloud_has_a_meaning() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "reason")]
    assert {kind.reason for kind in kinds} <= set(CLOUD_REASONS)


def test_every_reason_of_a_condition_or_an_event_has_a_meaning() -> None:
    written = {word for path in files(*REPORTING) for word in strings(ast.parse(path.read_text()))}
    assert written - NO_REASONS - documented() == set()


@pytest.mark.parametrize(("called", "position"), [("invalid", 1), ("Problem", 4), ("Finish", 2)])
def test_every_reason_for_which_an_object_is_refused_or_ends_has_a_meaning(called: str, position: int) -> None:
    assert set(reasons_of_calls(called, position)) - documented() == set()


def test_no_word_is_documented_that_nothing_writes() -> None:
    sources = [path for path in files(".") if not {"words", "fakecloud"} & set(path.relative_to(SOURCE).parts)]
    written = {word for path in sources for word in re.findall(r'"([A-Z][A-Za-z]+)"', path.read_text())}
    parts = {"InvalidSpec", "InvalidStatus"}  # f"Invalid{part}"
    assert set(LITERAL) - written - parts == set()


def test_every_field_that_a_remedy_names_exists() -> None:
    reference = (ROOT / "docs/reference.md").read_text()
    texts = [" ".join((meaning.means, meaning.remedy)) for table in TABLES for meaning in table.words.values()]
    named = {field for text in texts for field in re.findall(r"`((?:spec|status)\.[A-Za-z.]+)", text)}
    assert {field for field in named if f"| `{field}`" not in reference} == set()


def test_the_page_is_what_the_words_say() -> None:
    done = CliRunner().invoke(main, ["--check", "--troubleshooting", str(ROOT / "docs/troubleshooting.md")])
    assert (done.exit_code, done.output) == (0, "")


def test_every_meaning_is_a_sentence_that_fits_a_table() -> None:
    meanings = [meaning for table in TABLES for meaning in table.words.values()]
    assert not [meaning for meaning in meanings if not meaning.means.endswith(".")]
    assert not [meaning for meaning in meanings if meaning.remedy and not meaning.remedy.endswith(".")]
    assert not [meaning for meaning in meanings if "|" in meaning.means + meaning.remedy]
