"""``charterer explain``: pods that join a job while it trains, or are to leave it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from charterer.domain.job import Job, ResizePolicy, first_group
from charterer.domain.pod import PodPhase
from charterer.tools.commands.explain.document import regrouping_sentence
from tests.factory import allocation, at, job, pod, run
from tests.scenarios.policy.test_in_place import TRAIN, training, widening
from tests.unit.cli.worlds import charterer_over

ONE, THREE = allocation("a100-1"), allocation("a100-1", "a100-2", "a100-3")
GROUP = first_group(1, 1, at(0), None).trained(1, {0: "pod-uid-sft-1-0"})


def widened(**changes: object) -> Job:
    """A job that trains on one node and has been given two more."""
    wide = run(1, pod(), completions=3)
    fields = {"resize": ResizePolicy.IN_PLACE, "resized_from": ONE, "allocation": THREE, "runs": (wide,), "last_run": 1}
    return replace(job(**{**fields, "group": GROUP}), **changes)  # type: ignore[arg-type]


def test_pods_that_join_are_told_by_name_with_what_they_wait_for() -> None:
    pulling = pod(1, phase=PodPhase.PENDING, ready=False, trouble="ContainerCreating")
    joining = widened(runs=(run(1, pod(), pulling, completions=3),))
    assert regrouping_sentence(joining) == (
        "It is resized in place: 1 of 3 pods trains; 2 are getting ready: "
        "sft-r1-1 (ContainerCreating), sft-r1-2 (not made yet)."
    )


def test_pods_that_run_are_joining_until_the_leader_says_that_it_trains_with_them() -> None:
    pods = (pod(), pod(1), pod(2, ready=False))
    asked = GROUP.followed_by({one.index: one.uid for one in pods}, at(10), 600.0)
    joining = widened(group=asked, runs=(run(1, *pods, completions=3),))
    assert regrouping_sentence(joining).endswith("2 are getting ready: sft-r1-1 (Ready), sft-r1-2 (Running).")
    formed = replace(joining, group=asked.trained(2, {}), resized_from=None)
    assert regrouping_sentence(formed) == ""


def test_pods_that_are_to_leave_are_counted() -> None:
    pods = (pod(), pod(1), pod(2))
    wide = first_group(1, 3, at(0), None).trained(1, {one.index: one.uid for one in pods})
    narrowed = widened(allocation=ONE, resized_from=THREE, runs=(run(1, *pods, completions=3),))
    narrowed = replace(narrowed, group=wide.followed_by({0: pods[0].uid}, at(10), 60.0))
    assert regrouping_sentence(narrowed) == "It is resized in place: 1 of 3 pods trains; 2 are to leave."


def test_explain_has_it_in_words_and_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    world = training(1)
    widening(world)
    assert world.jobs[TRAIN].regroups
    charterer = charterer_over(world, monkeypatch)
    said = json.loads(charterer("explain", "train", "-o", "json").stdout)["resizing"]
    assert said.startswith("It is resized in place: 1 of ")
    assert said in " ".join(charterer("explain", "train").stdout.split())
