"""An HTML page as a browser would take it apart."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """``tags`` as they come; ``links``: what it would load or lead to outside of itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [
            value or ""
            for name, value in attrs
            if name in ("src", "href", "xlink:href") and not (value or "").startswith("#")
        ]
