"""What travels between the kernel and the worker, and how it arrives."""

from __future__ import annotations

import numpy
import pytest

from charterer_trainer.jupyter.cells import cell_names
from charterer_trainer.jupyter.values import InterruptedCopyError, Parcel, Values


def space(source: str) -> Values:
    """A notebook in which this ran."""
    values = Values({"__name__": "__main__"})
    exec(source, values.namespace)
    return values


def there(kernel: Values, cell: str) -> Values:
    """A worker to which what the cell needs has come."""
    worker = space("")
    for parcel in sent(kernel, cell):
        worker.install(parcel)
    return worker


def sent(values: Values, cell: str) -> list[Parcel]:
    """A copy, as the network makes it."""
    parcels = values.changed(cell_names(cell)).parcels
    return [Parcel(p.names, p.stream, tuple(bytearray(b) for b in p.buffers), p.refers, p.digests) for p in parcels]


def names_of(parcels: list[Parcel]) -> list[tuple[str, ...]]:
    return sorted(parcel.names for parcel in parcels)


def run(values: Values, cell: str) -> None:
    """Run a cell as both sides do."""
    names = cell_names(cell)
    values.touch(values.closure(names) | names.binds)
    exec(cell, values.namespace)


def test_only_what_a_cell_uses_travels_with_what_its_functions_use() -> None:
    kernel = space("def train():\n    return helper(rate)\ndef helper(x):\n    return x * 2\nrate = 3\nunused = [1]")
    worker = there(kernel, "train()")
    assert worker.names() == {"train", "helper", "rate"}
    assert eval("train()", worker.namespace) == 6


def test_a_function_has_the_globals_of_where_it_runs() -> None:
    worker = there(space("n = 1\ndef count():\n    global n\n    n += 1"), "count()")
    exec("n = 10\ncount()", worker.namespace)
    assert worker.namespace["n"] == 11


def test_names_that_share_an_object_travel_together_and_go_on_sharing_it() -> None:
    kernel = space("class Net: pass\nmodel = Net()\nmodel.w = [1]\noptimizer = {'of': model.w}\nother = [1]")
    parcels = sent(kernel, "model")
    assert names_of(parcels) == [("model", "optimizer")]
    worker = there(space("w = [1]\nmodel = {'w': w}\noptimizer = [w]"), "model")
    exec("optimizer[0].append(2)", worker.namespace)
    assert worker.namespace["model"] == {"w": [1, 2]}


def test_instances_of_one_class_and_equal_constants_do_not_travel_together() -> None:
    text = "import numpy\nclass C:\n    def m(self, x: int) -> int: return 1\na = C()\nb = C()\n"
    text += "x = numpy.ones(2)\ny = numpy.zeros(2)"
    assert names_of(sent(space(text), "a, x")) == [("a",), ("x",)]


def test_nothing_unchanged_is_sent_again_in_either_direction() -> None:
    kernel = space("import numpy\ndata = numpy.arange(1000.0)\nscale = [2]\ndef f(): return 1")
    worker = there(kernel, "data, scale, f")
    run(worker, "total = data.sum() * scale[0] * f()")
    back = sent(worker, "total")
    everything = worker.changed()
    assert names_of(back) == [("total",)]
    assert everything.parcels == ()
    for parcel in back:
        kernel.install(parcel)
    run(kernel, "data.mean(), scale, f")
    assert sent(kernel, "data, scale, f, total") == []


def test_what_changed_in_place_is_sent_alone() -> None:
    kernel = space("import numpy\na = numpy.zeros(1000)\nb = numpy.zeros(1000)")
    worker = there(kernel, "a, b")
    run(worker, "a[5] = 1\nb.sum()")
    (parcel,) = sent(worker, "a, b")
    assert parcel.names == ("a",)
    kernel.install(parcel)
    assert kernel.namespace["a"][5] == 1
    kernel.namespace["a"][6] = 1  # it is as writable as the one that was sent


def test_a_deleted_name_is_reported_once() -> None:
    kernel = space("x = 1")
    there(kernel, "x")
    run(kernel, "del x")
    assert kernel.changed().gone == {"x"}
    assert kernel.changed().gone == frozenset()


def test_a_value_that_cannot_travel_is_named_with_the_reason_and_holds_up_no_other() -> None:
    kernel = space("import threading\nlock = threading.Lock()\nx = [1]")
    assert names_of(list(kernel.changed().parcels)) == [("threading",), ("x",)]
    assert kernel.stuck == {"lock": "TypeError: cannot pickle '_thread.lock' object"}
    kernel.namespace["lock"] = 2
    kernel.touch({"lock"})
    kernel.changed()
    assert kernel.stuck == {}


def test_a_copy_that_is_interrupted_forgets_nothing() -> None:
    kernel = space("import numpy\na = numpy.zeros(10)\nb = numpy.ones(10)")
    with pytest.raises(InterruptedCopyError):
        kernel.changed(urgent=lambda: True)
    assert names_of(list(kernel.changed().parcels)) == [("a",), ("b",), ("numpy",)]


def test_what_nobody_wants_is_looked_at_once_and_sent_when_it_is_wanted() -> None:
    kernel = space("a = [1]\nb = [1]")
    assert names_of(sent(kernel, "a")) == [("a",)]
    assert kernel.survey() == {}
    assert names_of(sent(kernel, "b")) == [("b",)]
    assert sent(kernel, "a, b") == []
    run(kernel, "b.append(2)")
    assert sent(kernel, "a") == []
    assert names_of(sent(kernel, "b")) == [("b",)]


def test_a_survey_knows_what_a_cell_may_reach_before_anything_is_sent() -> None:
    kernel = space("w = [1]\nmodel = {'w': w}\noptimizer = [w]\ndef set_up():\n    global state\n    state = fresh")
    kernel.survey()
    assert {"model", "optimizer", "w"} <= kernel.closure(cell_names("model"))
    assert {"state", "fresh"} <= kernel.closure(cell_names("set_up()"))


def test_closures_defaults_and_methods_come_along() -> None:
    text = "def make(k):\n    def inner(x=[1], *, y=2):\n        return k + x[0] + y + z\n    return inner\n"
    text += "z = 100\nf = make(10)"
    worker = there(space(text), "f()")
    assert eval("f()", worker.namespace) == 113


def test_large_arrays_are_not_copied_into_the_pickle() -> None:
    kernel = Values({"__name__": "__main__", "a": numpy.zeros(1_000_000)})
    (parcel,) = kernel.changed().parcels
    assert len(parcel.stream) < 1000
    assert parcel.size > 8_000_000


def test_what_fails_to_load_binds_nothing() -> None:
    worker = space("")
    with pytest.raises(Exception, match=r"invalid load key|pickle"):
        worker.install(Parcel(("x",), b"no pickle", (), frozenset(), ("",)))
    assert worker.names() == set()


def test_hidden_names_never_travel() -> None:
    kernel = space("In = [1]\nx = 1")
    kernel.hidden = lambda name: name.startswith("__") or name == "In"
    kernel.changed()
    assert kernel.names() == {"x"}
