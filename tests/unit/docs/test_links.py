"""Links between the project's own pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "trainer").glob("*.md"),
        ROOT / "tests/bench/README.md",
    ]
)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def short_name(file: Path) -> str:
    """The end of its path in the repository, for the id of a test."""
    return str(file.relative_to(ROOT))[-55:]


@pytest.mark.parametrize("page", PAGES, ids=short_name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    targets = [target.partition("#")[0] for target in LINK.findall(page.read_text())]
    own = [target for target in targets if target and "://" not in target]
    assert not [target for target in own if not (page.parent / target).exists()]


@pytest.mark.parametrize("page", PAGES, ids=short_name)
def test_no_page_has_the_marks_of_an_unfinished_merge(page: Path) -> None:
    assert not re.findall(r"^(?:<{7}|>{7}) .*$", page.read_text(), flags=re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    }


@pytest.mark.parametrize("page", PAGES, ids=short_name)
def test_every_anchor_is_a_heading_of_its_page(page: Path) -> None:
    parts = [target.partition("#") for target in LINK.findall(page.read_text()) if "://" not in target]
    named = [(page.parent / path if path else page, anchor) for path, _, anchor in parts if anchor]
    assert not [(path, anchor) for path, anchor in named if anchor not in anchors(path)]


PROGRAMS = sorted(
    [
        ROOT / "Makefile",
        *(file for file in (ROOT / "charts").rglob("*") if file.is_file()),
        *(ROOT / "operator").rglob("*.py"),
        *(ROOT / "trainer").rglob("*.py"),
        *(ROOT / "demo").rglob("*.py"),
        *(ROOT / "examples").rglob("*.yaml"),
    ]
)


def test_every_page_that_a_program_a_chart_or_an_example_names_is_there() -> None:
    named = {(file, page) for file in PROGRAMS for page in re.findall(r"docs/[\w./-]+\.md", file.read_text())}
    assert len(named) > 20
    assert not [(str(file), page) for file, page in named if not (ROOT / page).exists()]


def test_every_page_is_named_by_another() -> None:
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page in PAGES
        for target in LINK.findall(page.read_text())
        if "://" not in target
    }
    decisions = ROOT / "docs/development/adr"
    starts = {ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "trainer/README.md"}
    assert not [page for page in PAGES if page not in linked | starts and page.parent != decisions]
