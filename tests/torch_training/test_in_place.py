"""A PyTorch job whose processes come, leave, are killed and hang, on this machine by gloo."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbed.frameworks import TORCH
from tests.unit.trainer.inplace.pods import Nursery, Starter, bed
from tests.unit.trainer.inplace.records import assert_each_sample_once, change, seen, trains_on, widths

PYTHON = TORCH.find()

pytestmark = [
    pytest.mark.skipif(PYTHON is None, reason="torch is not there: make training-torch"),
    pytest.mark.timeout(900),  # each process imports torch, which takes a minute on a machine with much other work
]


@pytest.fixture(scope="module")
def torch() -> Iterator[Nursery]:
    assert PYTHON is not None
    nursery = Nursery(PYTHON, "torch", "torch.distributed", "torch._dynamo", "charterer_trainer")
    yield nursery
    nursery.close()


@pytest.fixture
def train(torch: Nursery) -> Starter:
    return torch.script("train_torch.py")


def test_changes_are_bit_equal_to_restarts_and_each_sample_is_seen_once(tmp_path: Path, torch: Nursery) -> None:
    with bed(tmp_path, torch.script("train_torch.py"), {"PAUSE": "0.1"}) as (operator, pods):
        for width in (1, 2, 3, 2, 1):
            change(operator, pods, width)
        operator.stop()
        assert pods.code(0) == 143
        assert operator.refused == []
        resizes = [report for report in operator.reports if report["index"] == 0 and "resizeSeconds" in report]
        assert len(resizes) == 4  # once each, and none for the first group
    trained = widths(tmp_path)
    assert [width for _, width in trained] == [1, 2, 3, 2, 1]
    end = assert_each_sample_once(tmp_path, 3)

    plan = ",".join([f"{step}:{width}" for step, width in trained] + [str(end)])
    environ = {"PLAN": plan, "PORT": str(operator.port(9))}
    with bed(tmp_path, torch.script("restarts_torch.py"), environ) as (_, pods):
        pods.start(0, 1, 2)
        assert [pods.code(rank) for rank in range(3)] == [0, 0, 0], pods.output(0)


def test_a_newcomer_that_is_never_ready_does_not_hold_training_up(tmp_path: Path, train: Starter) -> None:
    with bed(tmp_path, train, {"NEVER_READY": "1"}) as (operator, pods):
        change(operator, pods, 1)
        operator.announce([0, 1])
        pods.start(1)
        trains_on(operator, 0, 20)
        operator.formed(operator.announce([0]))
        trains_on(operator, 0)
        assert {row["world"] for row in seen(tmp_path, 0)} == {1}
        assert [r for r in operator.reports if "resizeSeconds" in r] == []  # nothing stood still
        assert not (tmp_path / "checkpoints").exists()


def test_survivors_go_on_where_the_operator_says_so_and_else_ask_for_a_restart(tmp_path: Path, train: Starter) -> None:
    with bed(tmp_path, train, {"PATIENCE": "4"}) as (operator, pods):
        operator.announce([0, 1, 2, 3])
        pods.start(0, 1, 2, 3)
        trains_on(operator, 3, 10)

        pods.signal(2, signal.SIGKILL)
        operator.formed(operator.announce([0, 1, 3]))
        trains_on(operator, 3)

        pods.signal(0, signal.SIGKILL)  # the leader
        operator.formed(operator.announce([1, 3]), index=1)
        trains_on(operator, 3)
        steps = [row["step"] for row in seen(tmp_path, 1)]
        assert steps == sorted(set(steps)) == list(range(1, steps[-1] + 1))  # none twice, none left out
        assert {row["world"] for row in seen(tmp_path, 1)} == {4, 3, 2}

        pods.signal(3, signal.SIGKILL)
        assert pods.code(1) == 75
        assert "needs a restart" in pods.output(1)


def test_a_peer_that_hangs_is_left_behind_and_ends_when_it_wakes_up(tmp_path: Path, train: Starter) -> None:
    with bed(tmp_path, train, {"TIMEOUT": "2", "PATIENCE": "20"}) as (operator, pods):
        operator.announce([0, 1, 2])
        pods.start(0, 1, 2)
        trains_on(operator, 2, 10)
        pods.signal(1, signal.SIGSTOP)
        operator.formed(operator.announce([0, 2]))
        trains_on(operator, 2)
        pods.signal(1, signal.SIGCONT)
        assert pods.code(1) == 75
        assert "generation 2 has indexes [0, 2]" in pods.output(1)
        trains_on(operator, 2)


@pytest.mark.parametrize("cause", ["value", "shape"])
def test_an_exception_of_the_script_is_raised_as_ever(tmp_path: Path, train: Starter, cause: str) -> None:
    with bed(tmp_path, train, {"FAIL_AT": "1:10", "FAIL_BY": cause, "PATIENCE": "1"}) as (operator, pods):
        operator.announce([0, 1])
        pods.start(0, 1)
        assert pods.code(1) == 1
        assert pods.output(1).endswith(f"Error: my own {cause}\n")
        assert pods.code(0) == 75  # the operator has called it to no other group


def test_a_failure_that_comes_again_with_all_peers_there_is_raised(tmp_path: Path, train: Starter) -> None:
    with bed(tmp_path, train, {"FAIL_AT": "1:10", "FAIL_BY": "gloo", "PATIENCE": "5"}) as (operator, pods):
        operator.announce([0, 1])
        pods.start(0, 1)
        assert pods.code(1) == 1
        assert "members that do not answer: none" in pods.output(1)  # tried once more
        assert pods.output(1).endswith("RuntimeError: my own gloo\n")
        assert pods.code(0) in (1, 75)
        assert len(seen(tmp_path, 0)) == 10 == len(seen(tmp_path, 1))
