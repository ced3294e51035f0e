"""Analysis of a cell's source: the names that it uses, and whether it needs a GPU."""

from __future__ import annotations

import ast
import dis
import re
import symtable
import types
from collections.abc import Iterator
from dataclasses import dataclass

MAGIC = "%%gpu"
_REACHES_ALL = frozenset({"globals", "locals", "vars", "exec", "eval"})
"""Functions by which a cell may use a name that its source does not contain."""
_MAGICS_OF_ALL = frozenset({"run", "reset", "reset_selective", "store", "who", "who_ls", "whos", "xdel"})
_GLOBAL = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME"})
"""Operations on a global name. The last one is for names in the body of a class."""
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class CellNames:
    """The global names that a cell reads, and those that it binds or deletes. ``opaque``: whether the cell may use any
    other name too.
    """

    reads: frozenset[str] = frozenset()
    binds: frozenset[str] = frozenset()
    opaque: bool = False

    @property
    def used(self) -> frozenset[str]:
        """The names that are read or bound."""
        return self.reads | self.binds


EVERYTHING = CellNames(opaque=True)


def gpu_cell(source: str) -> str | None:
    """The part of the cell below a first line ``%%gpu``, or None if there is no such line.

    The first line is replaced by an empty line, so that line numbers stay the same.
    """
    lines = source.splitlines(keepends=True)
    for place, line in enumerate(lines):
        if line.strip():
            return "".join([*lines[:place], "\n", *lines[place + 1 :]]) if line.strip() == MAGIC else None
    return None


def cell_names(python: str) -> CellNames:
    """The names of a cell whose magics IPython has translated to Python.

    A cell that does not parse runs nothing and uses no names. Names that only a called function uses are not included.
    A magic may use all words of its line.
    """
    try:
        tree = ast.parse(python)
        table = symtable.symtable(python, "<cell>", "exec")
    except (SyntaxError, ValueError):
        return CellNames()
    reads: set[str] = set()
    binds: set[str] = set()
    for scope in _scopes(table):
        at_top = scope.get_type() == "module"
        for symbol in scope.get_symbols():
            if at_top or symbol.is_global():
                bound = symbol.is_assigned() or symbol.is_imported()
                if bound:
                    binds.add(symbol.get_name())
                if symbol.is_referenced() or not bound:
                    reads.add(symbol.get_name())
    nodes = list(ast.walk(tree))
    opaque = any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in nodes)
    if "get_ipython" in reads:
        texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        words = {word for text in texts for word in _WORD.findall(text)}
        opaque = opaque or bool(_MAGICS_OF_ALL & set(texts))
        binds |= words
    return CellNames(frozenset(reads), frozenset(binds), opaque or bool(reads & _REACHES_ALL))


def referenced(value: object) -> frozenset[str]:
    """The globals of a function that the notebook defines, or of a value whose class the notebook defines. Empty for
    other values.
    """
    holder = value if isinstance(value, (types.FunctionType, type)) else type(value)
    if getattr(holder, "__module__", None) != "__main__":
        return frozenset()
    if isinstance(holder, types.FunctionType):
        return frozenset(_globals_of(holder.__code__))
    members = [member for base in holder.__mro__ if base.__module__ == "__main__" for member in vars(base).values()]
    functions = [getattr(member, "fget", None) or getattr(member, "__func__", member) for member in members]
    return frozenset(
        name for each in functions if isinstance(each, types.FunctionType) for name in _globals_of(each.__code__)
    )


def _globals_of(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in _GLOBAL:
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals_of(constant)


def _scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _scopes(child)
