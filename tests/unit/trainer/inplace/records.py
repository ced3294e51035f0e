"""What the ranks of a test's training script have written, and common steps of such a test."""

from __future__ import annotations

import json
import signal
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.unit.trainer.inplace.announcer import Announcer
from tests.unit.trainer.inplace.pods import Pods


def seen(folder: Path, index: int) -> list[dict[str, Any]]:
    """The steps that an index has done, as far as it has written them."""
    file = folder / f"seen-{index}"
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def widths(folder: Path, index: int = 0) -> list[tuple[int, int]]:
    """From which step on, counted from 0, that index trained at which width."""
    found: list[tuple[int, int]] = []
    for row in seen(folder, index):
        if not found or found[-1][1] != row["world"]:
            found.append((row["step"] - 1, row["world"]))
    return found


def assert_each_sample_once(folder: Path, indexes: int) -> int:
    """Every step has its 13 samples, every epoch its 130, over all ranks, and no step is left out; their number."""
    found: dict[int, list[int]] = defaultdict(list)
    for index in range(indexes):
        for row in seen(folder, index):
            found[row["step"]] += row["samples"]
    end = max(found)
    assert sorted(found) == list(range(1, end + 1))
    assert all(len(set(samples)) == 13 == len(samples) for samples in found.values())
    for epoch in range(end // 10):
        assert sorted(sample for n in range(1, 11) for sample in found[10 * epoch + n]) == list(range(130))
    return end


def trains_on(operator: Announcer, index: int, steps: int = 3, seconds: float = 120.0) -> None:
    """Until it has done some more steps."""
    before = len(seen(operator.folder, index))
    operator.until(f"index {index} trains on", lambda: len(seen(operator.folder, index)) >= before + steps, seconds)


def change(operator: Announcer, pods: Pods, width: int, steps: int = 3) -> None:
    """Widen or narrow to the lowest indexes, end those that have left, and train for some steps."""
    generation = operator.announce(range(width))
    pods.start(*(index for index in range(width) if index not in pods.processes))
    operator.formed(generation)
    for index in [index for index in pods.processes if index >= width]:
        pods.signal(index, signal.SIGTERM)
        assert pods.code(index) == 143
        del pods.processes[index]
    trains_on(operator, 0, steps)
