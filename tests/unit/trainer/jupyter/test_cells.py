"""Which names a cell uses, and whether it is for the GPU."""

from __future__ import annotations

import pytest

from charterer_trainer.jupyter.cells import cell_names, gpu_cell, referenced


@pytest.mark.parametrize(
    ("source", "reads", "binds"),
    [
        ("y = f(x)", {"f", "x"}, {"y"}),
        ("x += 1", {"x"}, {"x"}),
        ("del x", set(), {"x"}),
        ("import a.b as c, d.e", set(), {"c", "d"}),
        ("def f(p, q=default):\n    local = p + used\n    return local", {"default", "used"}, {"f"}),
        ("def f():\n    global g\n    g = 1", set(), {"f", "g"}),
        ("class C(Base):\n    n = size\n    def m(self): return other", {"Base", "size", "other"}, {"C"}),
        ("[i for i in items if i > least]", {"items", "least"}, set()),
        ("with a as b: pass\nfor i in r: pass", {"a", "r"}, {"b", "i"}),
        ("x.grad[0] = y", {"x", "y"}, set()),
        ("z = await f(y)\nasync with p as q: pass", {"f", "y", "p"}, {"z", "q"}),
        ("if (n := count()) > 1: pass", {"count"}, {"n"}),
        ("lambda a, b=c: a + d", {"c", "d"}, set()),
        ("this does not parse", set(), set()),
    ],
)
def test_a_cell_uses_these_names(source: str, reads: set[str], binds: set[str]) -> None:
    names = cell_names(source)
    assert names.used == reads | binds
    assert names.binds == binds
    assert names.opaque is False


@pytest.mark.parametrize(
    "source",
    ["from m import *", "exec(text)", "globals()['x'] = 1", "eval('x')", "get_ipython().run_line_magic('run', 'a.py')"],
)
def test_a_cell_that_may_use_any_name_is_known(source: str) -> None:
    assert cell_names(source).opaque


def test_a_magic_uses_the_words_of_its_line() -> None:
    names = cell_names("get_ipython().run_line_magic('timeit', 'train(model)')")
    assert {"train", "model"} <= names.used
    assert not names.opaque


@pytest.mark.parametrize(
    ("source", "body"),
    [
        ("%%gpu\nx = 1", "\nx = 1"),
        ("\n  \n%%gpu  \nx = 1\ny = 2", "\n  \n\nx = 1\ny = 2"),
        ("x = 1\n%%gpu", None),
        ("%%gpus\nx", None),
        ("%gpu status", None),
        ("", None),
    ],
)
def test_a_cell_is_for_the_gpu_if_its_first_line_says_so(source: str, body: str | None) -> None:
    assert gpu_cell(source) == body


def test_names_that_functions_and_methods_of_the_notebook_use() -> None:
    space = {"__name__": "__main__"}
    exec(
        "def f():\n    return [lambda: one for _ in two]\n"
        "class C:\n    @property\n    def p(self): return three\nc = C()",
        space,
    )
    assert {"one", "two"} <= referenced(space["f"])
    assert {"three"} <= referenced(space["C"])
    assert {"three"} <= referenced(space["c"])
    assert referenced(pytest.raises) == frozenset()
    assert referenced([1]) == frozenset()
