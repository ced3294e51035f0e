"""Cells with and without a GPU, in an unmodified Jupyter server, with a real API server between notebook and worker."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator

import pytest

from charterer.cluster.paths import TRAINING_JOBS
from tests import awaited
from tests.cluster.notebooks import SECONDS, Notebooks, notebooks
from tests.testbed.controlplane import ControlPlane, ControlPlaneError
from tests.testbed.frameworks import JUPYTER

pytestmark = [pytest.mark.xdist_group("notebooks"), pytest.mark.needs("training")]


@pytest.fixture(scope="module")
async def server(api: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Notebooks]:
    python = awaited.have("training", JUPYTER.find, "Jupyter has not been installed for tests: run `make training`")
    namespace = f"notebooks-{uuid.uuid4().hex[:6]}"
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    async with notebooks(api, python, tmp_path_factory.mktemp("notebooks"), namespace) as made:
        yield made
    api.call("DELETE", TRAINING_JOBS.one("notebook-gpu", namespace))


@pytest.fixture
def asks(server: Notebooks) -> int:
    """How often the job was asked for a GPU before; all of that is answered."""
    asks: int = server.job()["spec"]["interactive"].get("asks", 0)
    server.say({"why": "", "allocation": None, "interactive": {"answered": asks, "startSeconds": 34}})
    return asks


async def test_a_cell_waits_for_a_gpu_while_others_run_and_its_values_outlive_the_gpu(
    server: Notebooks, asks: int
) -> None:
    waits = {"type": "CapacityAvailable", "status": "False", "reason": "QueuedForNode", "message": "a node starts"}
    conditions = [{**waits, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    server.say({"why": "QueuedForNode", "conditions": conditions})
    async with server.kernel() as (front, port):
        await front.run(
            "import numpy\ndata = numpy.arange(4.0)\nclass Net:\n    def __init__(self): self.w = [data.sum()]\n"
            "net = Net()\noptimizer = {'of': net.w}\n"
            "def step():\n    global steps\n    steps = len(net.w)\n    net.w[0] += 1"
        )
        there = await front.send("%%gpu\nimport os\nstep()\nprint('on', os.environ['GPU'])\nweights = data + 1\nnet.w")
        uses_it = await front.send("print(weights.sum(), net.w, optimizer['of'] is net.w, type(net) is Net)")
        beside = await front.send("beside = 1 + 1\nprint(beside)")
        assert (await beside.done()).text == "2\n"
        await there.until(lambda cell: bool(cell.shown))
        assert there.shown[0] == "Waiting for a GPU: a node starts; usually about 34 s"
        assert (there.reply, uses_it.reply) == (None, None)
        await server.asked(asks + 1)
        worker = server.give(1, port, GPU="gpu-1")
        assert (await there.done()).text.endswith("on gpu-1\n[np.float64(7.0)]"), there.text
        assert there.shown[-1].startswith("A GPU was asked for, and waited for ")
        assert (await uses_it.done()).text == "10.0 [np.float64(7.0)] True True\n"
        status = (await front.run("%gpu status")).text
        assert "This notebook has a GPU, in run 1." in status
        assert "$4.10 an hour while there is a GPU." in status
        assert await server.take_back(worker, asks + 1) == 143
        await front.run("weights = weights * 10")
        again = await front.send(
            "%%gpu\nstep()\nprint(os.environ['GPU'], weights, net.w, optimizer['of'] is net.w, beside)"
        )
        await server.asked(asks + 2)
        second = server.give(2, port, GPU="gpu-2")
        assert (await again.done()).text.endswith("gpu-2 [10. 20. 30. 40.] [np.float64(8.0)] True 2\n"), again.text
        assert "given back" in (await front.run("%gpu release")).text
        assert await asyncio.to_thread(second.wait, SECONDS) == 0
        assert (await front.run("print(net.w, steps)")).text == "[np.float64(8.0)] 1\n"


async def test_outputs_errors_interrupts_and_jax_on_its_devices(server: Notebooks, asks: int) -> None:
    async with server.kernel() as (front, port):
        devices = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
        await front.run("%gpu always")
        first = await front.send(
            "import jax, sys\nfrom IPython.display import display, HTML\n"
            "mesh = jax.make_mesh((4,), ('x',))\n"
            "spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec('x'))\n"
            "state = {'a': jax.device_put(jax.numpy.arange(8.0), spread), 'b': jax.device_put(1.5, jax.devices()[2])}\n"
            "del mesh, spread\nprint('to stderr', file=sys.stderr)\ndisplay(HTML('<b>x</b>'))\nlen(jax.devices())"
        )
        await server.asked(asks + 1)
        worker = server.give(1, port, **devices)
        await first.done()
        assert first.text.endswith("to stderr\n<IPython.core.display.HTML object>4"), first.text
        failed = await front.send("state['missing']")
        after = await front.send("print('never')")
        await failed.done()
        assert failed.outputs[-1][0] == "error"
        assert failed.reply is not None
        assert failed.reply["ename"] == "KeyError"
        assert "missing" in "".join(failed.reply["traceback"])
        assert (await after.done()).reply == {"status": "aborted"}
        endless = await front.send("import time\nprint('begins', flush=True)\nwhile True: time.sleep(0.01)")
        await endless.until(lambda cell: "begins" in cell.text)
        await front.stop()
        assert (await endless.done()).text.endswith("KeyboardInterrupt: ")
        assert await server.take_back(worker, asks + 1) == 143
        second = await front.send(
            "print(state['a'].sharding.mesh.shape['x'], {d.id for d in state['b'].devices()}, state['a'].sum())"
        )
        await server.asked(asks + 2)
        third = server.give(2, port, **devices)
        assert (await second.done()).text.endswith("4 {2} 28.0\n"), second.text
        await front.run("%gpu off")
        assert (await front.run("print(float(state['a'].sum()), len(jax.devices()))")).text == "28.0 1\n"
        third.kill()


async def test_a_gpu_that_is_lost_in_a_cell_and_one_that_is_no_longer_wanted(server: Notebooks, asks: int) -> None:
    async with server.kernel() as (front, port):
        kept = await front.send("%%gpu\nn = [1]\nlock = __import__('threading').Lock()")
        await server.asked(asks + 1)
        worker = server.give(1, port)
        await kept.done()
        assert (await front.run("print(n)")).text == "[1]\n"
        only_there = await front.run("lock.acquire()")
        assert "`lock` is only in the process with the GPU: TypeError: cannot pickle" in only_there.text
        dies = await front.send("%%gpu\nn[0] = 2\nprint('begins', flush=True)\nimport time\ntime.sleep(600)")
        await dies.until(lambda cell: "begins" in cell.text)
        worker.kill()
        await dies.done()
        assert dies.outputs[-1][1]["ename"] == "WorkerLostError"
        assert "with it what this cell changed" in dies.text
        assert "`n`: as of the end of cell 2." in dies.text
        assert (await front.run("print(n)")).text == "[1]\n"
        server.say({"allocation": None, "interactive": {"answered": asks + 1}})
        unwanted = await front.send("%%gpu\nprint('never')")
        await unwanted.until(lambda cell: bool(cell.shown))
        assert server.job()["spec"]["interactive"]["asks"] == asks + 2
        await front.stop()
        assert (await unwanted.done()).text.endswith("KeyboardInterrupt: ")
        assert server.job()["spec"]["interactive"]["asks"] == asks + 1
        await (await front.send("%%gpu\n1")).until(lambda cell: bool(cell.shown))
    assert server.job()["spec"]["interactive"]["asks"] == asks + 1, "the kernel was shut down while a cell waited"


async def test_a_cell_says_what_is_missing(server: Notebooks) -> None:
    async with server.kernel("another") as (front, _):
        missing = await front.run("%%gpu\n1")
        assert missing.outputs[-1][1]["ename"] == "MissingJobError"
        assert f"Create TrainingJob another with spec.interactive in namespace {server.namespace}" in missing.text
        await front.run("os.environ['CHARTERER_NAMESPACE'] = 'default'")
        refused = await front.run("%%gpu\n1")
        assert refused.outputs[-1][1]["ename"] == "ClusterError"
        role = "needs a Role in namespace .* with the verbs get and patch on trainingjobs of charterer.dev"
        assert re.search(role, refused.text), refused.text
        await front.run("del os.environ['CHARTERER_JOB']")
        unnamed = await front.run("%%gpu\n1")
        assert "set CHARTERER_JOB to the name of a TrainingJob, or CHARTERER_JOB_TEMPLATE" in unnamed.text
        assert (await front.run("print(1)")).text == "1\n"


async def test_a_kernel_has_a_job_of_its_own_until_it_ends(server: Notebooks) -> None:
    async with server.kernel() as (front, _):
        await front.run("del os.environ['CHARTERER_JOB']\nos.environ['CHARTERER_JOB_TEMPLATE'] = 'notebook-gpu'")
        status = (await front.run("%gpu status")).text
        said = re.search(r"the first cell makes TrainingJob (\S+) for this kernel", status)
        assert said is not None
        waits = await front.send("%%gpu\n1")
        await waits.until(lambda cell: bool(cell.shown))
        assert waits.shown[0] == "Waiting for a GPU: it was asked for"
        assert server.job(said[1])["spec"]["interactive"] == {"hourly": "40", "asks": 1}
    with pytest.raises(ControlPlaneError, match=f'"{said[1]}" not found'):
        server.job(said[1])
