"""For how long nodes are billed without a pod of a run, by what keeps them."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.budget import Mode
from charterer.domain.ids import NodeName
from charterer.domain.job import Job
from charterer.domain.pod import PodPhase
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Snapshot, Stop
from charterer.domain.time import after
from charterer.metrics.instruments import Metrics
from charterer.metrics.unused_nodes import kept_nodes
from tests import factory
from tests.unit.metrics.support import NOW, budget, job, plan, pod, pool, rental
from tests.unit.metrics.test_metrics import scrape, state


def node_of(phase: RentalPhase = RentalPhase.READY, **fields: object) -> Rental:
    return replace(rental("a100-1", phase, "n1"), ready=NOW, **fields)  # type: ignore[arg-type]


def world(*jobs: Job, of: Rental, strangers: int = 0, mode: Mode = Mode.ENFORCE, stop: Stop | None = None) -> Snapshot:
    shown = replace(factory.node(), name=NodeName("n1"), foreign_gpus=strangers)
    made = factory.snapshot(pool(), replace(budget(), mode=mode), of, shown, *jobs, now=NOW, bare=True)
    return replace(made, stop=stop)


def kept_by(*jobs: Job, of: Rental, strangers: int = 0, mode: Mode = Mode.ENFORCE, stop: Stop | None = None) -> str:
    found = kept_nodes(world(*jobs, of=of, strangers=strangers, mode=mode, stop=stop))
    return found[of.id][1].value if of.id in found else "used"


def with_pod(phase: PodPhase) -> Job:
    return job("train", gpus=4, pods=(pod(0, "n1", 4, phase),))


def test_what_keeps_a_node_without_a_pod_is_named() -> None:
    draining = node_of(RentalPhase.DRAINING, released_because="Idle")
    going = replace(with_pod(PodPhase.SUCCEEDED), deleting=True)
    assert {
        "its pod runs": kept_by(with_pod(PodPhase.RUNNING), of=node_of()),
        "its pod is to come": kept_by(job("train", gpus=4), of=node_of()),
        "nobody has it": kept_by(of=node_of()),
        "it never became ready": kept_by(of=replace(node_of(), ready=None)),
        "it ends, and a pod runs": kept_by(with_pod(PodPhase.RUNNING), of=draining),
        "it ends, and a run is to be recorded": kept_by(with_pod(PodPhase.SUCCEEDED), of=draining),
        "it ends, and its job is deleted": kept_by(going, of=draining),
        "it ends, and a stranger's pod has GPUs": kept_by(of=draining, strangers=4),
        "it ends, and a stranger's pod is there": kept_by(of=replace(draining, held_by="ml/other")),
        "it ends": kept_by(of=draining),
        "its object is deleted": kept_by(of=node_of(deleting=True)),
        "it ends, for a budget that observes": kept_by(of=draining, mode=Mode.OBSERVE),
        "the same, drained by a person": kept_by(of=draining, mode=Mode.OBSERVE, stop=Stop.DRAIN),
    } == {
        "its pod runs": "used",
        "its pod is to come": "allocated",
        "nobody has it": "warm",
        "it never became ready": "used",
        "it ends, and a pod runs": "used",
        "it ends, and a run is to be recorded": "record",
        "it ends, and its job is deleted": "cloud",
        "it ends, and a stranger's pod has GPUs": "strangers",
        "it ends, and a stranger's pod is there": "strangers",
        "it ends": "cloud",
        "its object is deleted": "cloud",
        "it ends, for a budget that observes": "observe",
        "the same, drained by a person": "cloud",
    }


def test_a_stopped_run_that_is_not_on_record_keeps_its_node() -> None:
    stopped = job("train", gpus=4)
    assert stopped.allocation is not None
    replaced = replace(stopped, allocation=None, replaced=(stopped.allocation,))
    draining = node_of(RentalPhase.DRAINING, released_because="Idle")
    assert kept_by(replaced, of=draining) == "record"
    assert kept_by(replace(replaced, deleting=True), of=draining) == "cloud"


def test_seconds_go_to_what_kept_the_node_meanwhile_and_end_with_the_machine() -> None:
    metrics = Metrics()

    def turn(seconds: float, *jobs: Job, of: Rental) -> None:
        metrics.observe(replace(world(*jobs, of=of), now=after(NOW, seconds)), plan(), state)

    draining = node_of(RentalPhase.DRAINING, released_because="Idle")
    turn(0, with_pod(PodPhase.RUNNING), of=node_of())
    turn(100, of=node_of())
    turn(130, of=draining)
    turn(150, of=draining)
    turn(200, of=replace(draining, phase=RentalPhase.ENDED, ended=after(NOW, 157)))
    turn(300, of=replace(draining, phase=RentalPhase.ENDED, ended=after(NOW, 157)))
    counted = {
        dict(labels)["cause"]: seconds
        for (name, labels), seconds in scrape(metrics).items()
        if name == "charterer_node_without_pod_seconds_total"
    }
    assert counted == {"warm": 30.0, "cloud": 27.0}


def test_a_node_whose_name_nobody_knows_is_no_used_one() -> None:
    assert kept_by(with_pod(PodPhase.RUNNING), of=node_of(node=None)) == "allocated"
    assert kept_by(of=node_of(node=NodeName("n2"))) == "warm"
