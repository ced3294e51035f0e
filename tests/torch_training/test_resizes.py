"""PyTorch, Hugging Face's Trainer and Lightning train, stop and go on at other widths: real processes over gloo.

`make test-torch` runs these; `make test` does not. A net and a step are small, since what is tested is which samples
make which step. Ranks are forked from a process that has imported torch and the rest; under torchrun they start anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.resizes import STEPS, Result, example, interpreter
from tests.testbed.frameworks import TORCH_TRAINERS
from tests.unit.trainer.inplace.pods import Nursery

NAMES = ["ddp", "huggingface", "lightning"]
SEEDS = range(3)
TIMES = 10

Undisturbed = dict[str, list[Result]]

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    modules = ("torch", "torch.distributed", "torch._dynamo", "transformers.trainer", "lightning", "charterer_trainer")
    made = Nursery(interpreter(TORCH_TRAINERS), *modules)
    yield made
    made.close()


@pytest.fixture(scope="module")
def undisturbed(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The results of each seed with two ranks, which nothing stopped."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return {
        name: [example(name, folder / f"{name}-{seed}", seed, nursery=nursery).finished(2) for seed in SEEDS]
        for name in NAMES
    }


def assert_as_undisturbed(found: Result, results: list[Result], seed: int) -> None:
    """Nothing is left of the resizes but the order in which numbers were added up."""
    losses = [each.loss for each in results]
    print(f"seed {seed}: {found}, undisturbed {results[seed]}, seeds from {min(losses)} to {max(losses)}")
    assert found.step == STEPS
    assert found.loss == pytest.approx(results[seed].loss, rel=2e-4), "a step was lost or repeated"
    assert abs(found.loss - results[seed].loss) < (max(losses) - min(losses)) / 4
    assert abs(found.accuracy - results[seed].accuracy) < 2.5 / 297


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", NAMES)
def test_ten_resizes_change_the_result_less_than_the_seed_does(
    nursery: Nursery, undisturbed: Undisturbed, name: str, seed: int, tmp_path: Path
) -> None:
    found = example(name, tmp_path, seed, nursery=nursery).resized(TIMES, Random(seed))
    assert_as_undisturbed(found, undisturbed[name], seed)


def test_ten_resizes_under_torchrun_do_not_either(undisturbed: Undisturbed, tmp_path: Path) -> None:
    found = example("ddp", tmp_path, torchrun=True).resized(TIMES, Random(10))
    assert_as_undisturbed(found, undisturbed["ddp"], 0)


@pytest.mark.parametrize("name", ["huggingface", "lightning"])
def test_the_script_runs_under_torchrun(name: str, tmp_path: Path) -> None:
    assert example(name, tmp_path, torchrun=True).finished(2, steps=20).step == 20
