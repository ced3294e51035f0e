"""Targets of make, modules of Python and files that pages name exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.docs.test_links import PAGES, ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z0-9.-]+):", MAKEFILE, flags=re.MULTILINE))
VARIABLES = set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)*\b", MAKEFILE))
CURRENT = [page for page in PAGES if page.name != "CHANGELOG.md" and page.parent.name != "adr"]
"""Pages that speak of the present."""
PACKAGES = ROOT / "operator/charterer"

FENCED = re.compile(r"^```\w*\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^ {4,}(.*)$", flags=re.MULTILINE)
WORDS = re.compile(r"`([^`]+)`")
MAKE = re.compile(r"^make((?: +[\w.=:/-]+)+)")
MODULE = re.compile(r"(?<![\w./-])((?:tests|(?<=python -m )demo)(?:\.[a-z_]\w*)*)(?!\S*/)")
FOLDERS = "charts|crds|demo|docs|examples|operator|requirements|tests|trainer|website"
FILE = re.compile(rf"(?<![\w./-])(?:{FOLDERS}|{'|'.join(p.name for p in PACKAGES.iterdir() if p.is_dir())})/[\w./-]*\w")


def code(page: Path) -> Iterator[str]:
    """The lines of code blocks and the words between backticks, without line ends."""
    text = page.read_text()
    for block in FENCED.findall(text):
        yield from block.splitlines()
    text = FENCED.sub("", text)
    yield from INDENTED.findall(text)
    yield from (" ".join(words.split()) for words in WORDS.findall(text))


def unknown_to_make(call: str) -> list[str]:
    """The targets and variables of a call of make that the Makefile lacks."""
    names = [word.partition("=") for word in call.split()]
    return [name for name, given, _ in names if name not in (VARIABLES if given else TARGETS)]


def is_there(name: str) -> bool:
    """Whether a file or folder of the repository, or of the operator's packages, has this path."""
    return any((root / path).exists() for root in (ROOT, PACKAGES) for path in (name, f"{name}.py"))


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_target_module_and_file_that_is_named_exists(page: Path) -> None:
    lines = [*code(page)]
    calls = [found[1] for line in lines if (found := MAKE.match(line)) is not None]
    modules = [name.replace(".", "/") for line in lines for name in MODULE.findall(line)]
    files = [name for line in lines for name in FILE.findall(line)]
    assert [name for call in calls for name in unknown_to_make(call)] == []
    assert [name for name in modules if not is_there(name)] == []
    assert [name for name in files if not is_there(name)] == []


def test_what_the_pages_name_is_found() -> None:
    lines = [*code(ROOT / "CONTRIBUTING.md")]
    assert sum(MAKE.match(line) is not None for line in lines) > 5
    assert sum(len(FILE.findall(line)) for line in lines) > 30
