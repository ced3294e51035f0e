"""``charterer costs`` beside a real operator: the ledger's sum, while a machine runs and when all is on record."""

from __future__ import annotations

from charterer.controller.loop import LoopTiming
from charterer.domain.cost_row import CostRecording
from charterer.domain.money import Money, total
from tests.cluster.adopted_jobs import once_users_are
from tests.cluster.commands import charterer
from tests.cluster.test_cli import person
from tests.testbed.bed import Bed


async def test_who_spent_what_is_the_ledger_while_a_machine_runs_and_afterwards(bed: Bed) -> None:
    place = bed.directory / "costs"
    place.mkdir()
    recording = CostRecording(str(place), ("example.com/team",), users=True, every_seconds=0.5)
    bed.operator(cost_recording=recording, timing=LoopTiming(idle_seconds=2.0, batch_idle_seconds=0.1))
    await bed.pool("a100")
    await bed.budget()
    await once_users_are(bed, written=True)
    template = {"spec": {"containers": [{"name": "trainer", "image": "train:1"}]}}
    await bed.create(
        "TrainingJob",
        "train",
        {"gpus": {"min": 4, "max": 4}, "template": template},
        labels={"example.com/team": "vision"},
        annotations={"charterer.dev/created-by": "somebody else"},
    )
    await bed.running("train")
    me, asked = person(bed), ("costs", "--record", str(place), "--by", "user,label:example.com/team", "-o", "json")
    running = await charterer(me, *asked)
    assert (running.code, running.err) == (0, "")
    [month] = running.json["budgets"]
    assert (month["onRecord"], month["notOnRecord"], month["open"]) == ("0.00", "0.00", True)
    assert Money.parse(month["spent"]) == Money.parse(month["stillOpen"]) > Money(0)
    await bed.finish("train")
    await bed.settle()
    await bed.until(lambda: not bed.rentals())
    ended = await charterer(me, *asked)
    [month] = ended.json["budgets"]
    assert (month["stillOpen"], month["notOnRecord"], month["onRecord"]) == ("0.00", "0.00", month["spent"])
    assert total(Money.parse(row["dollars"]) for row in ended.json["costs"]) == Money.parse(month["spent"])
    [job] = [row for row in ended.json["costs"] if row["purpose"] == "job"]
    assert (job["user"], job["label:example.com/team"]) == ("admin", "vision")
    without = await charterer(me, "costs", "-o", "json")
    assert {row["namespace"] for row in without.json["costs"] if row["purpose"] == "job"} == {bed.namespace}
