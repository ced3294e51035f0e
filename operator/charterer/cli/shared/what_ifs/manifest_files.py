"""The objects that are written in files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from charterer.api.names import API_VERSION
from charterer.cli.shared.files.input_file import read_text
from charterer.cli.shared.files.yaml_documents import documents
from charterer.cli.shared.what_ifs.all_faults import AllFaults

_OWN: Final = ("TrainingJob", "SpeedupProfile", "GPUBudget", "GPUPool", "GPUPoolSet")
"""Kinds of Charterer's that users write: with another apiVersion they are a mistake."""


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """One object as written in a file; ``at`` names the file and the place in it."""

    at: str
    raw: Mapping[str, Any]

    @property
    def is_namespace(self) -> bool:
        """Whether it is a Namespace, the only object of others that a plan follows from: budgets select its labels."""
        return self.raw.get("apiVersion") == "v1" and self.raw.get("kind") == "Namespace"

    def field(self, *path: str) -> Mapping[str, Any]:
        """The fields of an object in it, empty where it is absent. ClickException where something else is there."""
        found = self.raw
        for number, name in enumerate(path, start=1):
            value = found.get(name)
            if value is not None and not isinstance(value, dict):
                there = ".".join(path[:number])
                raise click.ClickException(f"{self.at}: {there} is {value!r}; it has to be an object with fields")
            found = value or {}
        return found


def manifest_sources(files: Sequence[Path]) -> tuple[ManifestSource, ...]:
    """The objects of YAML or JSON files, ``-`` for stdin. ClickException names each file and document that is wrong."""
    sources: list[ManifestSource] = []
    faults = AllFaults()
    for file in files:
        name = "stdin" if str(file) == "-" else str(file)
        with faults.of_one():
            found = documents(name, read_text(file))
            for number, document in enumerate(found, start=1):
                with faults.of_one():
                    sources += _objects(f"{name}, document {number}" if len(found) > 1 else name, document)
    faults.tell()
    return tuple(sources)


def _objects(at: str, document: object) -> list[ManifestSource]:
    if document is None:
        return []
    if not isinstance(document, dict):
        raise click.ClickException(f"{at}: this is no Kubernetes object; begin it with apiVersion and kind")
    if document.get("kind") == "List":
        items = document.get("items") or []
        return [source for index, item in enumerate(items) for source in _objects(f"{at}, items[{index}]", item)]
    return [ManifestSource(at, document)]


def planned_and_left_out(
    sources: Iterable[ManifestSource],
) -> tuple[tuple[ManifestSource, ...], tuple[str, ...]]:
    """The objects that a plan follows from, Namespaces first, and a sentence on each of the others."""
    planned: list[ManifestSource] = []
    left_out: list[str] = []
    for source in sources:
        version, kind = str(source.raw.get("apiVersion") or ""), str(source.raw.get("kind") or "")
        if not version or not kind or kind in _OWN or version == API_VERSION or source.is_namespace:
            planned.append(source)
        else:
            name = source.field("metadata").get("name")
            left_out.append(f"{kind} {name} of {source.at} is left out: no plan follows from it")
    return tuple(sorted(planned, key=lambda source: not source.is_namespace)), tuple(left_out)
