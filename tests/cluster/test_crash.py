"""The operator is killed just before and just after every kind of command and step, and started again each time.

Every kind once, in a cloud that counts what is ordered. In clouds that take orders otherwise, only those that order.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import get_args

import pytest

from charterer.cluster.client import RawObject
from charterer.cluster.paths import GPU_BUDGETS, GPU_POOLS, GPU_RENTALS, JOBS, NODES, TRAINING_JOBS
from charterer.cost_record import CostRecord
from charterer.domain.cost_row import CostRecording
from charterer.domain.money import Money, total
from charterer.domain.plan import Command, Rent
from charterer.domain.steps import (
    Adopt,
    AdoptTarget,
    AskCloud,
    Cool,
    EditJob,
    EndTarget,
    FinishJob,
    GiveBack,
    LetGo,
    MarkMissing,
    PoolSetStep,
    RecordOrphan,
    Refresh,
    Step,
    Terminate,
    Uncordon,
    Withdraw,
)
from tests.patience import OPERATORS_PATIENCE
from tests.testbed.bed import Bed, group
from tests.testbed.call_killer import around
from tests.testbed.operators import Killer

LISTED_SECONDS = 15
"""The cloud lists ended machines for longer than an operator takes to come back, as real ones do: ends are exact."""
_STARTUP_SECONDS = 3.0
"""Machines are adopted before they have a node, also on a slow machine, so that they must be refreshed."""


_OF_ADOPTION = {AdoptTarget, EditJob, EndTarget, FinishJob, GiveBack, LetGo}
_NOT_HERE = {MarkMissing, Refresh, Uncordon, *get_args(PoolSetStep), *_OF_ADOPTION}
"""tests/property/lifecycle has these, test_pool_sets.py those of sets, test_adoption_faults.py those of adoption,
tests/unit/lifecycle/test_numbers_given_again.py Uncordon. No machine leaves the cloud's list in this life, or its end
would not be exact. No price changes, a Node registers before the cloud's list is read again, and no cloud gives an
identifier again."""
_EVERY = frozenset(kind.__name__ for kind in {*get_args(Command), *get_args(Step)} - _NOT_HERE)
_ORDERING = frozenset(kind.__name__ for kind in (Rent, AskCloud, Withdraw, Cool, Adopt, RecordOrphan, Terminate))
"""Those that ask a cloud for machines, and those whose next one depends on how it answers."""


def _sold_by(orders: str) -> pytest.MarkDecorator:
    sold = {"orders": orders, "listedSeconds": LISTED_SECONDS, "startupSeconds": [_STARTUP_SECONDS]}
    return pytest.mark.groups(
        group("a100", **sold),
        group("empty", **{**sold, "stock": 0, "hourlyPrice": "6.00"}),
        group("orphans", **{**sold, "orders": "counted", "initialTarget": 1}),
        group("scarce", **{**sold, "stock": 0, "gpuType": "NVIDIA-H100-80GB-HBM3"}),
    )


@pytest.mark.long
@pytest.mark.timeout(600)
@_sold_by("counted")
async def test_killed_around_every_step_nothing_is_rented_twice_and_nothing_forgotten(bed: Bed) -> None:
    async with _killed_around(bed, _EVERY):
        await _a_life_with_every_step(bed)
    budget = bed.mirror.one(GPU_BUDGETS, "team") or {}
    rows = list(CostRecord(str(bed.directory / "costs")).read([datetime.now(UTC).strftime("%Y-%m")]))
    assert total(row.cost for row in rows) == Money.parse(budget["status"]["lifetime"])
    assert {row.payer.job for row in rows if row.payer is not None} >= {"train", "wide", "torn", "patient", "lost"}


@pytest.mark.long
@pytest.mark.repeats
@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(_ORDERING, id="named", marks=_sold_by("named")),
        # such a cloud does not go on trying
        pytest.param(_ORDERING - {"Withdraw"}, id="replying", marks=_sold_by("replying")),
    ],
)
async def test_killed_around_every_order_nothing_is_rented_twice_and_nothing_forgotten(
    bed: Bed, kinds: frozenset[str]
) -> None:
    async with _killed_around(bed, kinds):
        await _a_run_after_a_stock_out(bed)
        await bed.finish("train")
        await bed.until(lambda: not bed.rentals())


@asynccontextmanager
async def _killed_around(bed: Bed, kinds: frozenset[str]) -> AsyncIterator[None]:
    """An operator that dies before and after each of these kinds, which has happened by the end."""
    journal = bed.directory / "journal"

    def missing() -> set[str]:
        return around(kinds) - set(journal.read_text().splitlines())

    (bed.directory / "costs").mkdir()
    recording = CostRecording(str(bed.directory / "costs"), every_seconds=0.5)
    async with bed.operator(killer=Killer(journal, kinds), cost_recording=recording).revived():
        yield
        await bed.until(lambda: not missing())
    assert missing() == set()


async def _a_life_with_every_step(bed: Bed) -> None:
    """A stock-out, a run, a resize, a lost node, an end; an orphan; a run that shrinks in place; a rental that somebody
    deletes; stock that comes back; a run of no job."""
    await _a_run_after_a_stock_out(bed)
    await _edit(bed, "train", {"min": 1, "preferred": 2, "max": 2})
    await bed.until(lambda: bed.tj("train").get("gpus") == 2 and bed.state("train") == "Running")
    instance = bed.pods("train")[-1]["spec"]["nodeName"]
    before = bed.run("train")
    await bed.cloud.admin("POST", f"/instances/{instance}/kill", {"nodeObject": "silent"})
    await bed.until(lambda: bed.mirror.one(NODES, instance) is None)
    await bed.running_again("train", before)
    await bed.finish("train")
    await bed.until(lambda: bed.mirror.one(TRAINING_JOBS, "train", bed.namespace) is None)
    await bed.job("wide", gpus=4, resizePolicy="InPlace")
    await _edit(bed, "wide", {"min": 12, "preferred": 12, "max": 12})
    await bed.until(lambda: bed.tj("wide").get("gpus") == 12 and bed.state("wide") == "Running")
    await _edit(bed, "wide", {"min": 8, "preferred": 8, "max": 8})
    await bed.until(lambda: bed.tj("wide").get("gpus") == 8 and bed.state("wide") == "Running")
    await bed.until(lambda: all('"gpus":8' in _allocation(pod) for pod in bed.pods("wide")))
    await bed.finish("wide")
    await bed.complete("wide")
    await bed.job("torn", resizePolicy="Restart")
    await bed.running("torn")
    before = bed.run("torn")
    (rental,) = bed.tj("torn")["allocation"]["placements"]
    await bed.kube.delete(GPU_RENTALS.one(rental["rental"]))
    await bed.running_again("torn", before)
    await bed.finish("torn")
    await bed.complete("torn")
    await bed.pool("scarce", cooldownSeconds=2)
    await bed.job("patient", gpuTypes=["NVIDIA-H100-80GB-HBM3"])
    await bed.until(lambda: _cooled(bed))
    await bed.cloud.admin("PUT", "/groups/scarce", {"stock": 4})
    await bed.running("patient")
    await bed.until(lambda: not _cooled(bed))
    await bed.finish("patient")
    await bed.complete("patient")
    await bed.job("lost")
    await bed.running("lost")
    # without its owner the garbage collector leaves the run, and a job that is gone at once cannot be seen to be going
    await bed.kube.merge_patch(JOBS.one("lost-r1", bed.namespace), {"metadata": {"ownerReferences": None}})
    await bed.kube.delete(TRAINING_JOBS.one("lost", bed.namespace))
    await bed.until(lambda: not bed.rentals())


async def _a_run_after_a_stock_out(bed: Bed) -> None:
    await bed.pool("empty", cooldownSeconds=300)
    await bed.pool("a100")
    await bed.pool("orphans")
    await bed.budget()
    # On a slow machine a rental of the job's would otherwise take the orphan before it has been recorded as one.
    await bed.until(lambda: any("-o-" in rental["metadata"]["name"] for rental in bed.rentals()))
    await bed.job("train", resizePolicy="Restart", ttlSecondsAfterFinished=1)
    await bed.running("train", seconds=2 * OPERATORS_PATIENCE)  # each of some thirty kills is another start


def _cooled(bed: Bed) -> list[RawObject]:
    pool = bed.mirror.one(GPU_POOLS, "scarce") or {}
    return list(pool.get("status", {}).get("cooled", ()))


def _allocation(pod: RawObject) -> str:
    return str(pod["metadata"]["annotations"]["charterer.dev/allocation"])


async def _edit(bed: Bed, job: str, gpus: Mapping[str, int]) -> None:
    await bed.kube.merge_patch(TRAINING_JOBS.one(job, bed.namespace), {"spec": {"gpus": dict(gpus)}})
