"""What every version since 0.1.0 has stored is read to the same values by this one: an upgrade forgets nothing.

Reading is judged by writing again: all that the former version wrote must be there, with the same value. Fields may be
added; one that is renamed, dropped or given another meaning fails here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from charterer import __version__
from charterer.api import decode
from charterer.api.models.base import ApiModel, dump
from charterer.api.models.gpubudget_status import GPUBudgetRecord
from charterer.api.models.gpupool import GPUPoolRecord
from charterer.api.models.gpurental import GPURentalRecord
from charterer.api.models.learned import ClassStatistics
from charterer.api.models.machine_state import BudgetStatistics, MachineContent, PackedStatistics
from charterer.api.models.speedupprofile import SpeedupProfileRecord
from charterer.api.models.trainingjob_status import TrainingJobRecord
from charterer.workloads import INDEXED_JOB
from tests.property.schema_check import check
from tests.unit.api.stored_objects import FOLDER

Json = dict[str, Any]


def _job(raw: Json) -> ApiModel:
    return TrainingJobRecord.from_domain(decode.training_job(raw).job)


def _rental(raw: Json) -> ApiModel:
    return GPURentalRecord.from_domain(decode.rental(raw))


def _budget(raw: Json) -> ApiModel:
    return GPUBudgetRecord.from_domain(decode.budget(raw).balance)


def _pool(raw: Json) -> ApiModel:
    return GPUPoolRecord.from_domain(decode.pool(raw))


def _profile(raw: Json) -> ApiModel:
    read = decode.profile(raw)
    assert not read.unreadable
    assert read.reports
    return SpeedupProfileRecord.model_validate(raw["status"])


WRITTEN_AGAIN: dict[str, Callable[[Json], ApiModel]] = {
    "TrainingJob": _job,
    "GPURental": _rental,
    "GPUBudget": _budget,
    "GPUPool": _pool,
    "SpeedupProfile": _profile,
}
CONTENT: dict[str, type[MachineContent]] = {"GPUBudget": BudgetStatistics, "SpeedupProfile": ClassStatistics}


def stored() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.json")):
        for name, raw in json.loads(path.read_text()).items():
            yield pytest.param(raw, id=f"{path.stem}-{name}")


def lost(before: Any, after: Any, path: str) -> Iterator[str]:
    """What stood in ``before`` and stands otherwise, or not at all, in ``after``."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            if name not in after:
                yield f"{path}.{name} is gone"
            else:
                yield from lost(value, after[name], f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (value, now) in enumerate(zip(before, after, strict=True)):
            yield from lost(value, now, f"{path}[{index}]")
    elif before != after:
        yield f"{path} was {before!r} and is {after!r}"


def unpacked(status: Json, content: type[MachineContent]) -> Json:
    """The status with the content of its machine state in the place of its bytes."""
    state = PackedStatistics.unpacked(PackedStatistics.model_validate(status["machineState"]), content)
    assert state is not None
    return {**status, "machineState": dump(state)}


@pytest.mark.parametrize("raw", [*stored()])
def test_what_a_former_version_stored_is_read_to_the_same_values(raw: Json) -> None:
    if raw["kind"] == "Job":
        job, run = INDEXED_JOB.kind.decode(raw) or (None, None)
        assert run is not None
        assert (job, run.number, run.completions, run.suspended) == (
            raw["metadata"]["ownerReferences"][0]["uid"],
            3,
            2,
            True,
        )
        return
    before, after = raw.get("status") or {}, dump(WRITTEN_AGAIN[raw["kind"]](raw))
    if raw["kind"] in CONTENT:
        before, after = (unpacked(status, CONTENT[raw["kind"]]) for status in (before, after))
    assert list(lost(before, after, "status")) == []


@pytest.mark.parametrize("raw", [*stored()])
def test_what_a_former_version_stored_is_still_accepted(raw: Json) -> None:
    """An operator that writes a status anew writes all of it, so a field that is refused would stop every write."""
    if raw["kind"] != "Job":
        check(raw["kind"], raw.get("status") or {})


def test_there_is_a_file_of_the_present_version() -> None:
    """Written by ``python -m tests.unit.api.stored_objects``, once."""
    assert (FOLDER / f"{__version__}.json").exists(), Path(__file__).name
