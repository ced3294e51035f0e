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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    targets = [target.partition("#")[0] for target in LINK.findall(page.read_text())]
    own = [target for target in targets if target and "://" not in target]
    assert not [target for target in own if not (page.parent / target).exists()]


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
