"""The examples train, stop and go on with real processes: without a framework, and with JAX over two of them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.resizes import STEPS, example

pytestmark = pytest.mark.needs("training")


def test_ten_stops_leave_a_plain_scripts_training_as_it_was(tmp_path: Path) -> None:
    resized = example("plain", tmp_path / "resized")
    for step in sorted(Random(0).sample(range(5, STEPS - 5), 10)):
        codes, output = resized.run(1, (0, step))
        assert codes == [143], output
    undisturbed = example("plain", tmp_path / "undisturbed").finished(1)
    assert resized.finished(1) == undisturbed
    assert undisturbed.accuracy > 0.9


@pytest.mark.timeout(900)  # five processes that compile; seconds on a machine without other work
def test_jax_goes_on_at_other_widths_where_a_signal_to_one_rank_stopped_all(tmp_path: Path) -> None:
    resized = example("jax", tmp_path / "resized")
    for width, stop in ((1, (0, 70)), (2, (1, 171))):
        codes, output = resized.run(width, stop)
        assert codes == [143] * width, output
    found, undisturbed = resized.finished(1), example("jax", tmp_path / "undisturbed").finished(1)
    assert found.step == undisturbed.step == STEPS
    assert found.loss == pytest.approx(undisturbed.loss, rel=0.01)
    assert abs(found.accuracy - undisturbed.accuracy) < 1.5 / 297
