"""Cells with and without a GPU, in an unmodified Jupyter server, with a real API server between notebook and worker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.cluster.notebooks import Notebooks, notebooks
from tests.testbed.controlplane import ControlPlane
from tests.testbed.frameworks import JUPYTER

pytestmark = pytest.mark.xdist_group("notebooks")


@pytest.fixture(scope="module")
async def server(api: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Notebooks]:
    python = JUPYTER.find()
    if python is None:
        pytest.skip("Jupyter has not been installed for tests: run `make training`")
    async with notebooks(api, python, tmp_path_factory.mktemp("notebooks")) as made:
        yield made


async def test_a_cell_waits_for_a_gpu_while_others_run_and_its_values_outlive_the_gpu(server: Notebooks) -> None:
    asks = server.job()["spec"]["interactive"].get("asks", 0)
    server.say({"why": "QueuedForNode", "interactive": {"answered": asks, "startSeconds": 34}})
    async with server.kernel() as (front, port):
        await front.run("import numpy\ndata = numpy.arange(4.0)\ndef double():\n    global total\n    total = data.sum() * 2")
        there = await front.send("%%gpu\nimport os\ndouble()\nprint('on', os.environ['GPU'])\nweights = data + 1\ntotal")
        uses_it = await front.send("print(weights.sum())")
        beside = await front.send("beside = 1 + 1\nprint(beside)")
        assert (await beside.done()).text == "2\n"
        await there.until(lambda cell: bool(cell.shown))
        assert there.shown[0] == "Waiting for a GPU: QueuedForNode; usually about 34 s"
        assert there.reply is None
        assert uses_it.reply is None
        await server.asked(asks + 1)
        worker = server.give(1, port, GPU="gpu-1")
        await there.done()
        assert there.reply is not None
        assert there.reply["status"] == "ok", there.text
        assert there.text.endswith("on gpu-1\n12.0"), there.text
        assert (await uses_it.done()).text == "10.0\n"
        assert await server.take_back(worker, asks + 1) == 143
        await front.run("weights = weights * 10")
        again = await front.send("%%gpu\nprint(os.environ['GPU'], weights, total, beside)")
        await server.asked(asks + 2)
        server.give(2, port, GPU="gpu-2")
        assert (await again.done()).text.endswith("gpu-2 [10. 20. 30. 40.] 12.0 2\n"), again.text
