"""The site of `make docs`: its navigation has every page, links that leave docs/ lead somewhere, lists are lists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.unit.docs.test_links import PAGES, ROOT, short_name
from website import hooks

DOCS = sorted(page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md"))
_ITEM = re.compile(r"([-*] |\d+\. )")


class _Loader(yaml.SafeLoader):
    """Reads mkdocs' configuration; what only mkdocs understands is None."""


_Loader.add_multi_constructor("!ENV", lambda loader, suffix, node: None)
_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)
CONFIG = yaml.load((ROOT / "website/mkdocs.yml").read_text(), Loader=_Loader)


def pages_of(item: Any) -> Iterator[str]:
    """The pages of a part of the navigation."""
    if isinstance(item, str):
        yield item
    for child in item.values() if isinstance(item, dict) else item if isinstance(item, list) else ():
        yield from pages_of(child)


def test_every_page_is_in_the_navigation_once_and_the_decisions_are_behind_their_index() -> None:
    shown = list(pages_of(CONFIG["nav"]))
    assert len(shown) == len(set(shown))
    expected = {page for page in DOCS if not re.match(r"development/adr/0", page)}
    assert {page for page in shown if not page.startswith("repository/")} == expected
    assert [each for each in CONFIG["not_in_nav"].split() if "repository" not in each] == ["/development/adr/0*.md"]
    assert all((ROOT / hooks.path_of(page)).is_file() for page in shown)


def test_what_the_navigation_has_from_outside_docs_is_linked_by_a_page() -> None:
    outside = {page for page in pages_of(CONFIG["nav"]) if page.startswith("repository/")}
    linked = {hooks.place_of(path) for path in hooks.linked_outside(f"docs/{page}" for page in DOCS)}
    assert outside <= linked


def test_links_that_leave_the_folder_lead_into_the_site() -> None:
    text = "[a](../examples/job.yaml), [b](cli.md#charterer-run), [c](../examples), [d](../tests), <https://x.example>"
    moved = hooks.moved_links(text, "docs/concepts.md")
    assert moved == (
        "[a](repository/examples/job.yaml), [b](cli.md#charterer-run), c, [d](repository/tests/README.md), <https://x.example>"
    )


def test_a_page_outside_leads_back() -> None:
    text = "[![money](docs/images/demo.png)](docs/demo.md) and [law](LICENSE)"
    assert hooks.moved_links(text, "README.md") == "[![money](../images/demo.png)](../demo.md) and [law](LICENSE)"
    assert hooks.moved_links("[a](../../README.md)", "docs/clouds/aws.md") == "[a](../repository/README.md)"


def test_pages_outside_are_followed_and_other_files_are_not(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("[b](../b.md) [gone](../gone.md) [own](a.md) [out](https://x.example)")
    (tmp_path / "b.md").write_text("[c](c.py) [a](docs/a.md)")
    (tmp_path / "c.py").write_text("[d](d.md)")
    (tmp_path / "d.md").write_text("")
    assert sorted(hooks.linked_outside(["docs/a.md"], tmp_path)) == ["b.md", "c.py"]


def test_the_list_for_language_models_has_sections_addresses_and_sentences() -> None:
    text = hooks.llms_text("N", "What it is.", {"Start": [("A", "https://x.example/a.md", "It says so")]})
    assert text == "# N\n\n> What it is.\n\n## Start\n\n- [A](https://x.example/a.md): It says so\n"
    page = "# Title\n\n| a | b |\n\nIt [links](b.md) to\nmore. And on."
    assert hooks.first_sentence(page) == "It links to more."


def misread_lists(text: str) -> Iterator[tuple[int, str]]:
    """Lines that belong to an item of a list for GitHub, and not for the site, where they need four spaces."""
    offset, blank, fenced = 0, False, False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced, offset = not fenced, 0
        if fenced or not line.strip():
            blank = blank or not line.strip()
            continue
        item = _ITEM.match(line)
        if item is not None:
            offset = len(item[1])
        elif offset and line.startswith(" " * offset):
            nested = _ITEM.match(line[offset:])
            if (blank or nested) and not line.startswith("    "):
                yield number, line
        elif blank:
            offset = 0
        blank = False


@pytest.mark.parametrize("page", PAGES, ids=short_name)
def test_items_of_lists_are_indented_by_four(page: Path) -> None:
    assert list(misread_lists(page.read_text())) == []


def test_a_misread_list_is_found() -> None:
    assert [
        line for line, _ in misread_lists("- a\n  b\n\n  c\n\n    d\n- e\n  - f\n    - g\n\n1. h\n\n   i\n\n  j\n")
    ] == [4, 8, 13]


def test_pages_for_developers_come_late_in_a_search() -> None:
    weights = {}
    for place in ("cli.md", "theory/policy.md", "development/adr/README.md", "repository/tests/README.md"):
        page = SimpleNamespace(file=SimpleNamespace(src_uri=place), meta={}, edit_url="")
        hooks.on_page_markdown("", page=page, config=None, files=None)
        weights[place] = page.meta.get("search", {}).get("boost", 1)
    assert weights.pop("cli.md") == 1
    assert max(weights.values()) < 1
