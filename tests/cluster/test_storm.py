"""Storms of refusals on a real control plane: 429, 500, 503, cut connections, and writes whose answer is lost.

Each test ends as all do: nothing rented is left, and the ledger is the bill. CHARTERER_STORM_SEED gives another storm.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from charterer.cluster.paths import PODS
from tests.testbed.bed import SYSTEM, Bed
from tests.testbed.controlplane import ControlPlane
from tests.testbed.operators import OperatorProcess
from tests.testbed.storm import Fate, StormProxy

SEED = int(os.environ.get("CHARTERER_STORM_SEED", "1"))
SECONDS = 10.0
SHARE = 0.6
MOST_REQUESTS = 4.0
"""Requests in the storm ÷ requests while three jobs were started without one."""


@pytest.fixture
async def proxy(installed: ControlPlane) -> AsyncIterator[StormProxy]:
    """The way to the API server; in the arguments of a test before the bed, whose operators need it to the end."""
    async with StormProxy(installed) as made:
        yield made


def operator_behind(proxy: StormProxy, bed: Bed) -> OperatorProcess:
    """An operator whose Lease outlasts the storm."""
    return bed.operator(kubeconfig=proxy.kubeconfig(SYSTEM, "charterer"))


async def test_a_storm_of_refusals_and_lost_answers_costs_nothing_but_time(proxy: StormProxy, bed: Bed) -> None:
    operator = operator_behind(proxy, bed)
    began = operator.pid
    await bed.pool()
    await bed.budget()
    for name in ("ends-1", "ends-2", "stays"):
        await bed.job(name)
    await bed.running("ends-1", "ends-2", "stays")
    calm = proxy.fates.total()

    over = proxy.storm(SEED, SECONDS, SHARE)
    await bed.finish("ends-1")
    await bed.finish("ends-2")
    await bed.job("new-1")
    await bed.job("new-2")
    await over
    met = dict(proxy.fates)
    print(f"{calm} requests before, in the storm {met}")
    assert sum(met.values()) <= MOST_REQUESTS * calm
    assert all(met.get(fate) for fate in Fate), met

    await bed.running("stays", "new-1", "new-2")
    for name in ("stays", "new-1", "new-2"):
        await bed.finish(name)
    await bed.complete("ends-1", "ends-2", "stays", "new-1", "new-2")
    await bed.given_back()
    assert all(len(bed.tj(name)["runs"]) == 1 for name in ("ends-1", "ends-2", "stays", "new-1", "new-2"))
    assert await bed.launched() <= 5
    assert operator.alive
    assert operator.pid == began


@pytest.mark.repeats  # test_watch.py; the storm: above
async def test_an_operator_that_starts_in_a_storm_waits_for_its_end(proxy: StormProxy, bed: Bed) -> None:
    await bed.pool()
    await bed.budget()
    await bed.job("train")
    pod = {"metadata": {"name": "charterer-0", "labels": {"charterer.dev/leader": "former"}}}
    spec = {"containers": [{"name": "operator", "image": "charterer:1"}], "nodeName": "elsewhere"}
    await bed.kube.post(PODS.all(SYSTEM), {"apiVersion": "v1", "kind": "Pod", **pod, "spec": spec})
    over = proxy.storm(SEED, 10.0, 0.8)
    operator = operator_behind(proxy, bed)
    began = operator.pid
    await over
    await bed.running("train")

    def leads() -> bool:
        labelled = bed.mirror.one(PODS, "charterer-0", SYSTEM)
        return labelled is not None and labelled["metadata"]["labels"]["charterer.dev/leader"] == "true"

    await bed.until(leads)
    assert await bed.launched() == 1
    assert operator.alive
    assert operator.pid == began
    await bed.kube.delete(PODS.one("charterer-0", SYSTEM), grace=0)
