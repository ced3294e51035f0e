"""spec.maxCost on a real control plane: a stop in time and in order, said; nodes given back; and a way to go on."""

from __future__ import annotations

import asyncio

import pytest

from charterer.cluster.paths import SPEEDUP_PROFILES, TRAINING_JOBS
from charterer.domain.money import Money
from tests.patience import OPERATORS_PATIENCE
from tests.testbed.bed import Bed

MAX_COST = "0.835"
"""At $12 an hour: five seconds of training, then five of grace and four minutes for whatever may go wrong."""
STOPPED_AT = float(MAX_COST) - 12.0 / 3600.0 * (5 + 240)


async def _runs_on_past_what_was_expected(bed: Bed) -> None:
    """A job of a class whose jobs should take seconds, which does not end."""
    body = {
        "apiVersion": "charterer.dev/v1alpha1",
        "kind": "SpeedupProfile",
        "metadata": {"name": "short", "namespace": bed.namespace},
        "spec": {
            "curves": [{"gpuType": "NVIDIA-A100-SXM4-40GB", "throughput": [{"gpus": 4, "value": 1}]}],
            "meanWork": 1,
            "restartSeconds": 1,
        },
    }
    await bed.kube.post(SPEEDUP_PROFILES.all(bed.namespace), body)
    await bed.pool()
    await bed.budget()
    await bed.job("train", profileName="short", maxCost=MAX_COST, resizePolicy="Restart")
    await bed.running("train")


def _cost(bed: Bed) -> Money:
    return Money.parse(bed.tj("train")["cost"])


async def test_a_job_is_stopped_in_order_before_it_costs_more_and_goes_on_when_it_may(bed: Bed) -> None:
    bed.operator()
    await _runs_on_past_what_was_expected(bed)
    await bed.until(lambda: bed.state("train") == "Queued")
    await bed.given_back()
    record = bed.tj("train")["runs"][0]
    assert record["outcome"] == "Stopped"
    assert bed.tj("train").get("failures", 0) == bed.tj("train").get("restarts", 0) == 0
    assert STOPPED_AT <= _cost(bed).dollars <= float(MAX_COST)
    limited = bed.condition(bed.mirror.one(TRAINING_JOBS, "train", bed.namespace), "BudgetLimited")
    assert (limited["status"], limited["reason"]) == ("True", "MaxCost")
    assert limited["message"].endswith("or more to go on")
    assert "MaxCost" in bed.plane.kubectl("get", "tj", "train", "-n", bed.namespace, "-o", "wide")
    await bed.kube.merge_patch(TRAINING_JOBS.one("train", bed.namespace), {"spec": {"maxCost": "5"}})
    await bed.running("train")
    assert bed.run("train") == 2
    assert bed.tj("train")["why"] != "MaxCost"


@pytest.mark.repeats  # as the test before: the operator remembers nothing of it
async def test_an_operator_that_comes_back_stops_what_should_have_been_stopped_meanwhile(bed: Bed) -> None:
    operator = bed.operator()
    await _runs_on_past_what_was_expected(bed)
    operator.kill()
    async with asyncio.timeout(OPERATORS_PATIENCE):
        while (await bed.cloud.bill())[1] < 30_000:  # micro-dollars: nine seconds of its node
            pass
    operator.restart()
    await bed.until(lambda: bed.state("train") == "Queued")
    await bed.given_back()
    assert bed.tj("train")["runs"][0]["outcome"] == "Stopped"
    assert STOPPED_AT < _cost(bed).dollars <= float(MAX_COST)
