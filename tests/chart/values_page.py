"""The chart's page, charts/charterer/README.md: its values in a table, made from the comments of values.yaml.

    python -m tests.chart.values_page [--check]

With --check it writes nothing and fails where the page is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

CHART = Path(__file__).resolve().parents[2] / "charts/charterer"
PAGE = CHART / "README.md"
HEAD = """# The chart `charterer`

The operator, its rights, and what watches it. Install `charterer-crds` first;
[getting started](../../docs/getting-started.md) has the commands. `helm show values charts/charterer` prints the values
with their comments. Every value is optional, and a name that does not exist is refused.

<!-- made by `python -m tests.chart.values_page` -->

| value | default | what it is |
|---|---|---|
"""
_LONGEST_DEFAULT = 60


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the chart: its path, its default as YAML on one line, and the comment above it."""

    path: str
    default: str
    comment: str

    def row(self) -> str:
        """The row of the table."""
        default = f"`{self.default}`" if len(self.default) <= _LONGEST_DEFAULT else "see values.yaml"
        return f"| `{self.path}` | {default} | {self.comment.replace('|', chr(92) + '|')} |"


def values(text: str) -> list[Value]:
    """The values of a values.yaml, in its order. A mapping with entries has a row only if it has a comment."""
    document = yaml.compose(text)
    if not isinstance(document, yaml.MappingNode):
        raise ValueError("values.yaml is not a mapping")
    return list(_within(document, "", text.splitlines()))


def _within(mapping: yaml.MappingNode, prefix: str, lines: list[str]) -> Iterator[Value]:
    for key, value in mapping.value:
        path, comment = prefix + key.value, _comment_above(key.start_mark.line, lines)
        if isinstance(value, yaml.MappingNode) and value.value:
            if comment:
                yield Value(path, "", comment)
            yield from _within(value, f"{path}.", lines)
        else:
            yield Value(path, _one_line(value), comment)


def _comment_above(line: int, lines: list[str]) -> str:
    first = line
    while first and lines[first - 1].strip().startswith("#"):
        first -= 1
    return " ".join(text.strip().lstrip("#").strip() for text in lines[first:line])


def _one_line(node: yaml.Node) -> str:
    loaded = yaml.safe_load(yaml.serialize(node))
    return yaml.safe_dump(loaded, default_flow_style=True, width=10_000).removesuffix("\n...\n").strip() or '""'


def page() -> str:
    """The page as it should be."""
    rows = [value.row().replace("| `` |", "| |") for value in values((CHART / "values.yaml").read_text())]
    return HEAD + "\n".join(rows) + "\n"


def main() -> None:
    """Write the page, or check it."""
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page())
    elif not PAGE.exists() or PAGE.read_text() != page():
        sys.exit("charts/charterer/README.md is stale: `make generated` writes it again")


if __name__ == "__main__":
    main()
