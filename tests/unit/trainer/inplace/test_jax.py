"""A JAX job whose processes come, leave and are killed, on this machine by gloo."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import awaited
from tests.testbed.frameworks import JAX
from tests.unit.trainer.inplace.pods import Nursery, Starter, bed
from tests.unit.trainer.inplace.records import assert_each_sample_once, change, seen, trains_on, widths

pytestmark = pytest.mark.needs("training")


@pytest.fixture(scope="module")
def jax() -> Iterator[Starter]:
    python = awaited.have("training", JAX.find, "JAX is not there: run `make training`")
    nursery = Nursery(python, "jax", "jax.numpy", "jax.experimental.multihost_utils", "charterer_trainer")
    yield nursery.script("train_jax.py")
    nursery.close()


def test_each_sample_is_seen_once_at_changing_widths_and_a_process_changes_only_so_often(
    tmp_path: Path, jax: Starter
) -> None:
    environ = {"CACHE": str(tmp_path / "compiled"), "MOST_CHANGES": "4", "PAUSE": "0.1", "PATIENCE": "120"}
    with bed(tmp_path, jax, environ) as (operator, pods):
        for width in (1, 2, 3, 2, 1):
            change(operator, pods, width, 5)
        operator.announce([0, 1])
        pods.start(1)
        assert pods.code(0) == 75
        pods.signal(1, signal.SIGTERM)  # it still waits to be called
        assert pods.code(1) == 143
        assert operator.refused == []
        resizes = [report for report in operator.reports if report["index"] == 0 and "resizeSeconds" in report]
        assert [report["generation"] for report in resizes] == [2, 3, 4, 5]  # once each, and none for the first group
    trained = widths(tmp_path)
    assert [width for _, width in trained] == [1, 2, 3, 2, 1]
    end = assert_each_sample_once(tmp_path, 3)
    assert (tmp_path / "checkpoints" / f"step-{end}.npz").exists()  # saved before the restart
    alone = {row["step"]: row["digest"] for row in seen(tmp_path, 0)}
    for index in (1, 2):
        rows = seen(tmp_path, index)
        assert [row["digest"] for row in rows] == [alone[row["step"]] for row in rows]

    (tmp_path / "restarts").mkdir()
    again = trained[1][0] + 5
    with bed(tmp_path / "restarts", jax, environ) as (_, pods):
        for last, width in ((trained[1][0], 1), (again, 2)):
            pods.start_fixed(width, STEPS=str(last), PAUSE="0")
            assert [pods.code(index) for index in range(width)] == [0] * width
    assert seen(tmp_path / "restarts", 0)[-1]["digest"] == alone[again]


def test_after_a_killed_peer_all_ask_for_a_restart(tmp_path: Path, jax: Starter) -> None:
    with bed(tmp_path, jax, {"TIMEOUT": "30", "PATIENCE": "120"}) as (operator, pods):
        operator.announce([0, 1, 2])
        pods.start(0, 1, 2)
        trains_on(operator, 2, 10)
        pods.signal(1, signal.SIGKILL)
        assert [pods.code(0), pods.code(2)] == [75, 75]
