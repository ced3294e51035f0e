"""PyTorch, Hugging Face's Trainer and Lightning train, stop and go on at other widths: real processes over gloo.

`make test-torch` runs these; `make test` does not.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.resizes import STEPS, Result, example

SEEDS = range(3)


@pytest.fixture(scope="module", params=["ddp", "huggingface", "lightning"])
def undisturbed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Result]]:
    """The results of three seeds with two ranks, which nothing stopped."""
    name: str = request.param
    folder = tmp_path_factory.mktemp(name)
    return name, [example(name, folder / str(seed), seed).finished(2) for seed in SEEDS]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", SEEDS)
def test_resizes_change_the_result_less_than_the_seed_does(
    undisturbed: tuple[str, list[Result]], seed: int, tmp_path: Path
) -> None:
    name, results = undisturbed
    times = 10 if name == "ddp" else 3
    found = example(name, tmp_path, seed).resized(times, Random(seed))
    losses = [each.loss for each in results]
    assert found.step == STEPS
    assert abs(found.loss - results[seed].loss) < (max(losses) - min(losses)) / 4
    assert found.loss == pytest.approx(results[seed].loss, rel=0.01), "a step that is lost or repeated costs more"
    assert abs(found.accuracy - results[seed].accuracy) < 2.5 / 297


@pytest.mark.parametrize("name", ["ddp", "huggingface", "lightning"])
def test_the_script_runs_under_torchrun(name: str, tmp_path: Path) -> None:
    code, output = example(name, tmp_path).torchrun(2, steps=20)
    assert code == 0, output
    assert "done at step 20" in output
