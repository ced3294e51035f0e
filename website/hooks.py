"""What mkdocs does not do by itself: pages and files of the repository outside docs/, and llms.txt.

A link of a page may leave docs/, as to an example or to CONTRIBUTING.md. Such a file is a part of the site, below
``repository/``, so that each link is checked, and leads somewhere, wherever the repository is.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = "repository"
"""The folder of the site that has what is outside docs/."""
_STYLE = "assets/site.css"
_WIDE = ".md-grid { max-width: 76rem; }\n"
"""Room for lines of 120 characters, as in the pages' own code."""
_FOR_DEVELOPERS = ("development/", "theory/", f"{OUTSIDE}/tests/")
_BEHIND = 0.1
"""The weight of developers' pages in a search: these have every word, so they would come before all others."""
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
_FOLDER = re.compile(r"\[([^\]]*)\]\(FOLDER\)")


def target_of(link: str, page: str) -> str | None:
    """The path in the repository that a link of a page leads to, both relative to it; None for an address."""
    if "://" in link or link.startswith("mailto:"):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def place_of(path: str) -> str:
    """Where the site has a file of the repository."""
    inside = path.removeprefix("docs/")
    return inside if inside != path else f"{OUTSIDE}/{path}"


def path_of(place: str) -> str:
    """The file of the repository that the site has at this place."""
    outside = place.removeprefix(f"{OUTSIDE}/")
    return outside if outside != place else f"docs/{place}"


def linked_outside(pages: Iterable[str], root: Path = ROOT) -> Iterator[str]:
    """The files outside docs/ that pages lead to, and those that these lead to, if they are pages, once each."""
    left, seen = list(pages), set(pages)
    while left:
        page = left.pop()
        for link, _ in _LINK.findall((root / page).read_text()):
            target = _page_of(target_of(link, page), root)
            if target is None or target in seen or target.startswith("docs/") or not (root / target).is_file():
                continue
            seen.add(target)
            yield target
            if target.endswith(".md"):
                left.append(target)


def moved_links(text: str, page: str, root: Path = ROOT) -> str:
    """The text of a page with links between places of the site; one to a folder without a page is only its text."""

    def moved(found: re.Match[str]) -> str:
        link, anchor = found[1], found[2] or ""
        named = target_of(link, page)
        target = _page_of(named, root)
        if named is None:
            return link + anchor
        if target is None:
            return "FOLDER"
        return posixpath.relpath(place_of(target), posixpath.dirname(place_of(page))) + anchor

    return _FOLDER.sub(r"\1", _LINK.sub(moved, text))


def _page_of(target: str | None, root: Path) -> str | None:
    """The target, or the README of a folder; None for a folder without one."""
    if target is None or not (root / target).is_dir():
        return target
    readme = f"{target}/README.md"
    return readme if (root / readme).is_file() else None


def llms_text(name: str, description: str, sections: Mapping[str, Iterable[tuple[str, str, str]]]) -> str:
    """https://llmstxt.org: for each section of the site its pages, as title, address and first sentence."""
    blocks = [f"# {name}", f"> {description}"]
    for section, pages in sections.items():
        lines = [f"- [{title}]({address}): {said}" for title, address, said in pages]
        blocks.append("\n".join([f"## {section}", "", *lines]))
    return "\n\n".join(blocks) + "\n"


def first_sentence(text: str) -> str:
    """Of a page, in one line and without links; empty where its first paragraph is a table or a list."""
    for block in text.split("\n\n"):
        if block and not block.startswith(("#", "|", "-", "<", "!", "```", "    ")):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(block.split()))
            return re.split(r"(?<=[.])\s", plain, maxsplit=1)[0].rstrip(":")
    return ""


# What mkdocs calls.

_texts: dict[str, str] = {}
"""The text of each page of the site as it was built, by its place."""
_sections: dict[str, list[Any]] = {}
"""The pages of each section of the navigation."""


def on_files(files: Any, *, config: Any) -> Any:
    """Add what pages lead to outside docs/."""
    from mkdocs.structure.files import File

    for path in linked_outside([path_of(page.src_uri) for page in files.documentation_pages()]):
        files.append(File.generated(config, place_of(path), abs_src_path=str(ROOT / path)))
    files.append(File.generated(config, _STYLE, content=_WIDE))
    config.extra_css.append(_STYLE)
    return files


def on_nav(nav: Any, *, config: Any, files: Any) -> Any:
    """Remember which pages each section has."""
    _sections.clear()
    for item in nav.items:
        _sections[item.title or config.site_name] = list(_pages(item))
    return nav


def _pages(item: Any) -> Iterator[Any]:
    if item.is_page:
        yield item
    for child in item.children or ():
        yield from _pages(child)


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Lead links to where the site has their files. A page outside docs/ has no address to edit it at, and one for
    developers comes late in what a search finds."""
    place = page.file.src_uri
    if place.startswith(f"{OUTSIDE}/"):
        page.edit_url = None
    if place.startswith(_FOR_DEVELOPERS):
        page.meta["search"] = {"boost": _BEHIND}
    _texts[place] = moved_links(markdown, path_of(place))
    return _texts[place]


def on_post_build(*, config: Any) -> None:
    """Write llms.txt, and each page as Markdown beside its HTML."""
    site, base = Path(config.site_dir), (config.site_url or "").rstrip("/") + "/"
    sections = {
        section: [(page.title, base + page.file.src_uri, first_sentence(_texts[page.file.src_uri])) for page in pages]
        for section, pages in _sections.items()
    }
    for place, text in _texts.items():
        file = site / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (site / "llms.txt").write_text(llms_text(config.site_name, config.site_description, sections))
