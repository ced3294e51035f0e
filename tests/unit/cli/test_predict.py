"""``charterer predict`` over a cluster and over files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import pytest

from charterer.api.models import learned_record
from charterer.api.models.base import dump
from charterer.api.models.machine_state import packed
from charterer.domain.ids import ClassId
from charterer.domain.pool import LaunchHistory
from charterer.domain.profile import ModelFacts, PowerLaw
from charterer.estimate.learner import Learner
from tests.unit.cli.worlds import Charterer, charterer_over
from tests.unit.estimate.trainers import NODE_GPUS, Trainer
from tests.worlds import NAMESPACE, World

RESNET = ModelFacts("resnet", 24.5e9, 25.6e6)
PROFILE = """
apiVersion: charterer.dev/v1alpha1
kind: SpeedupProfile
metadata: {name: written}
spec:
  batch: {own: 256, largest: 256, largestPerGpu: 64}
  model: {family: resnet, flopsPerSample: 24500000000, parameters: 25600000}
"""


def world(**models: ModelFacts) -> World:
    """A pool of A100s, and profiles that say this of their models."""
    found = World()
    found.budget("research")
    found.pool("a100", gpus=8, gpu_type="A100")
    for name, model in models.items():
        found.profiles[ClassId(NAMESPACE, name)] = replace(
            found.profile(name, PowerLaw(0.8, 1.0), checkpoint_seconds=None), model=model
        )
    return found


def over(found: World, monkeypatch: pytest.MonkeyPatch, *stored: Mapping[str, Any]) -> Charterer:
    monkeypatch.setattr("charterer.tools.commands.predict.read_profiles", lambda cluster: stored)
    return charterer_over(found, monkeypatch)


def that_ran(name: str) -> Mapping[str, Any]:
    """The SpeedupProfile of a class that reported from one and two A100s, as the operator wrote it."""
    trainer = Trainer(name, gpu_type="A100")
    learner = Learner({trainer.class_id: trainer.terms}, {"A100": NODE_GPUS})
    for report in trainer.reports((1, 2), 40):
        learner.report(report)
    state = learner.state(trainer.class_id)
    curves = learned_record.curves_record(learner.profile(trainer.class_id, (1, 2)))
    machine_state, _ = packed(learned_record.class_statistics(state, None))
    assert machine_state is not None
    metadata = {"namespace": NAMESPACE, "name": name, "uid": "u", "resourceVersion": "1"}
    learned = {**dump(curves), **dump(learned_record.class_record(state))}
    return {
        "metadata": {**metadata, "creationTimestamp": "2026-06-01T00:00:00Z"},
        "status": {"learned": learned, "machineState": dump(machine_state)},
    }


def answer(charterer: Charterer, *arguments: str) -> Any:
    return json.loads(charterer("predict", *arguments, "-o", "json").stdout)


def test_a_class_that_never_ran_is_predicted_from_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ResNet-50 took 4.6 ms an image on a T4 and 1.1 ms on an A100 (Sia)."""
    file = tmp_path / "profile.yaml"
    file.write_text(PROFILE)
    (found,) = answer(over(world(), monkeypatch), "-f", str(file), "--gpu-type", "T4")["classes"]
    assert [(step["gpuType"], step["gpus"]) for step in found["steps"]] == [
        *(("A100", gpus) for gpus in (1, 8, 16)),
        *(("T4", gpus) for gpus in (1, 8, 16)),
    ]
    seconds = {(step["gpuType"], step["gpus"]): step for step in found["steps"]}
    for gpu_type, true in (("A100", 0.0011 * 256), ("T4", 0.0046 * 256)):
        step = seconds[gpu_type, 1]
        assert step["source"] == "Prior"
        assert step["low"] < true < step["high"]
        assert step["samplesPerSecond"] == pytest.approx(256 / step["seconds"])
    assert found["checkpointSeconds"] == pytest.approx(7.6, abs=0.1)
    assert found["checkpointBasis"] == "by model.parameters"


def test_a_class_of_the_same_family_that_ran_narrows_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    found = world(new=RESNET, old=RESNET)
    alone = answer(over(found, monkeypatch), "new")["classes"][0]
    helped = answer(over(found, monkeypatch, that_ran("old")), "new")["classes"][0]
    wide, narrow = (each["steps"][0]["high"] / each["steps"][0]["low"] for each in (alone, helped))
    assert (alone["classesAlike"], helped["classesAlike"]) == (0, 1)
    assert narrow < wide / 2.0
    true = Trainer(gpu_type="A100").seconds(1, 128) / 128
    assert helped["steps"][0]["low"] < true < helped["steps"][0]["high"]


def test_a_class_that_ran_is_measured_there_and_extrapolated_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    found = world(old=RESNET)
    charterer = over(found, monkeypatch, that_ran("old"))
    steps = answer(charterer, "old", "--gpus", "2", "--gpus", "4")["classes"][0]["steps"]
    assert [(step["gpus"], step["source"]) for step in steps] == [(2, "Measured"), (4, "Extrapolated")]
    assert steps[0]["seconds"] == pytest.approx(Trainer().seconds(2, 64), rel=0.1)


def test_what_would_have_to_be_declared_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = over(world(bare=ModelFacts()), monkeypatch)("predict").stdout
    assert "team/bare: no job of it has run; spec.model.flopsPerSample would say what to expect." in stdout
    assert "assumed" in stdout


def test_without_a_batch_size_the_seconds_are_those_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    (step,) = answer(over(world(new=RESNET), monkeypatch), "new")["classes"][0]["steps"]
    assert (step["gpus"], step["batch"]) == (1, None)
    assert step["samplesPerSecond"] == pytest.approx(1.0 / step["seconds"])


def test_a_status_that_cannot_be_read_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = dict(that_ran("old"))
    broken["status"] = {**broken["status"], "machineState": {"encoding": "gzip", "data": "?"}}
    (found,) = answer(over(world(old=RESNET), monkeypatch, broken), "old")["classes"]
    assert found["steps"][0]["source"] == "Prior"


def test_a_profile_that_does_not_exist_brings_similar_names(monkeypatch: pytest.MonkeyPatch) -> None:
    result = over(world(resnet=RESNET), monkeypatch)("predict", "resnt")
    assert result.exit_code == 1
    assert "no SpeedupProfile 'resnt' in namespace team" in result.stderr
    assert "resnet" in result.stderr


def test_the_table_says_where_numbers_come_from_and_when_nodes_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = over(world(new=RESNET), monkeypatch)("predict").stdout
    assert "by its spec.model; no other classes with one ran here." in stdout
    assert "Seconds until a new node is ready" in stdout


def test_a_start_up_is_the_mean_of_what_is_declared_and_of_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    found = world(new=RESNET)
    found.pool("declared", gpus=8, gpu_type="A100", start_seconds=120.0)
    seen = found.pool("seen", gpus=8, gpu_type="A100", start_seconds=120.0)
    found.pools[seen.id] = replace(seen, launches=LaunchHistory(starts=0.9, logs=0.9 * log(5.0), at=found.now))
    charterer = over(found, monkeypatch)
    (pool,) = [pool for pool in answer(charterer, "new")["pools"] if pool["name"] == "seen"]
    assert 5.0 < pool["startSeconds"] < 120.0
    assert (pool["seen"], pool["declaredSeconds"]) == (1, 120.0)
    stdout = charterer("predict").stdout
    assert re.search(r"declared +120  declared\n", stdout)
    assert "1 seen, and 120 declared" in stdout
    assert "declared" in stdout
