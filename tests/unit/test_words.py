"""The words and the sizes of the source: class names are used once, docstrings avoid some phrases, files stay short."""

from __future__ import annotations

import ast
import gc
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "operator/charterer"
BANNED = re.compile(r"^(So many|So much|Of |Whether it still)|\bso-manieth\b|\bis had\b")
"""Openings and phrases that were found to need a second reading; docs/glossary.md has the rules."""
LONGEST_FILE = 800
"""Lines."""
SMALL = 200
"""Lines: a module that is shorter, and that one other module of its package alone imports, belongs to that one."""
OF_THEIR_OWN = {
    "cli/parameters.py": "what a shell completes, without the commands; its table is generated",
    "providers": "a cloud is a folder of its parts: calls, kinds of nodes, hardware, prices",
    "controller/execute/node_steps.py": "mutations of Nodes, apart from those that cost money",
    "tools/commands/logs.py": "a command of its own, which `charterer run` uses too",
}
"""Small modules with one user that stay, by path or folder, with the reason."""


def sources(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


@dataclass(frozen=True)
class Words:
    """What is looked for in a file: its classes, and its docstrings and comments with their lines."""

    classes: tuple[str, ...]
    prose: tuple[tuple[int, str], ...]


@cache
def words(path: Path) -> Words:
    """Of one file, which is parsed once."""
    text = path.read_text()
    tree = parsed(text)
    classes = tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef))
    return Words(classes, (*docstrings(tree), *comments(text)))


def parsed(text: str) -> ast.Module:
    """Its syntax tree.

    Python before 3.12 fails when an exception's traceback is printed, which parses, while something is being parsed:
    what an earlier test left behind may be collected, and say so, just then.
    """
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.enable()


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Those below constants and fields included, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value.strip()


def comments(text: str) -> Iterator[tuple[int, str]]:
    """With their lines."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def test_every_class_of_the_operator_has_a_name_of_its_own() -> None:
    """But adapters of different clouds, which do not import each other, may name their like parts alike."""
    places = defaultdict(list)
    for path in sources("operator/charterer"):
        for name in words(path).classes:
            places[name].append(path.relative_to(PACKAGE))
    twice = {
        name: [str(path) for path in found]
        for name, found in places.items()
        if len(found) > 1 and len({adapter_of(path) for path in found} - {""}) < len(found)
    }
    assert twice == {}


def adapter_of(path: Path) -> str:
    """The cloud in whose adapter a module is; empty for any other module."""
    return path.parts[1] if path.parts[0] == "providers" and len(path.parts) > 2 else ""


@pytest.mark.parametrize("folder", ["operator", "trainer/src", "demo"])
def test_docstrings_and_comments_are_free_of_banned_phrases(folder: str) -> None:
    offenders = [
        f"{path.relative_to(ROOT)}:{line}: {text[:60]}"
        for path in sources(folder)
        for line, text in words(path).prose
        if BANNED.search(text)
    ]
    assert offenders == []


@pytest.mark.parametrize(
    ("text", "banned"),
    [
        ("So many seconds as a plan took.", True),
        ("Of what a second costs: the tenth.", True),
        ("Whether it still says the truth.", True),
        ("until something faster is had", True),
        ("Offers of the market.", False),
        ("Seconds to wait, so many that a plan is cheap.", False),
    ],
)
def test_a_banned_phrase_is_recognised(text: str, banned: bool) -> None:
    assert bool(BANNED.search(text)) is banned


def test_no_source_file_is_too_long() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in sources("operator", "trainer/src", "demo", "tests")
    }
    assert {path: lines for path, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_a_small_module_with_one_user_is_part_of_it() -> None:
    """Whoever reads its user need not go elsewhere. What only ``__init__`` imports is shown to others."""
    offenders = [
        f"{path} ({users[0]})"
        for path, users in sorted(users_within_packages().items())
        if len(users) == 1
        and len((PACKAGE / path).read_text().splitlines()) < SMALL
        and not any(path.startswith(exempt) for exempt in OF_THEIR_OWN)
    ]
    assert offenders == []


def users_within_packages() -> dict[str, list[str]]:
    """The modules that import each module of the operator, if all of them are in its package, of the first level."""
    paths = {module_name(path): path.relative_to(PACKAGE) for path in sources("operator/charterer")}
    users = defaultdict(set)
    for user, path in paths.items():
        for node in ast.walk(parsed((PACKAGE / path).read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    imported = f"{node.module}.{alias.name}"
                    users[imported if imported in paths else node.module].add(user)
    return {
        str(paths[name]): sorted(found)
        for name, found in users.items()
        if name in paths
        and paths[name].name != "__init__.py"
        and all(paths[user].parts[0] == paths[name].parts[0] for user in found)
        and not any(paths[user].stem.startswith("__") for user in found)
    }


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")
