"""``charterer run`` by somebody with ``edit`` in one namespace: what is created, what runs, and what is refused."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from charterer.cluster.errors import NotFound
from charterer.cluster.paths import CONFIG_MAPS, TRAINING_JOBS
from tests.cluster.commands import Ran, charterer_run
from tests.cluster.test_own_jobs import engineer
from tests.patience import OPERATORS_PATIENCE
from tests.testbed.bed import Bed
from tests.unit.cli.run.repository import repository, write


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A repository with a script."""
    return repository(tmp_path / "code", {"train.py": "print(1)"})


async def submit(code: Path, kubeconfig: Path, bed: Bed, *arguments: str) -> Ran:
    """``charterer run`` in the repository, for the test's namespace."""
    return await charterer_run(kubeconfig, code, "-n", bed.namespace, *arguments)


async def code_maps(bed: Bed) -> Sequence[Any]:
    listed = (await bed.kube.list(CONFIG_MAPS.all(bed.namespace))).items
    return [item for item in listed if "-code-" in item["metadata"]["name"]]


async def test_a_command_becomes_a_job_with_its_code_and_is_followed_to_its_end(bed: Bed, code: Path) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    me = engineer(bed)
    sft = ("--gpus", "4..8", "--image", "train:1", "--name", "sft")
    following = asyncio.create_task(submit(code, me, bed, *sft, "--follow", "--", "python", "train.py"))
    await bed.running("sft")
    (code_map,) = await code_maps(bed)
    job = await bed.kube.get(TRAINING_JOBS.one("sft", bed.namespace))
    assert [owner["uid"] for owner in code_map["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]
    assert code_map["immutable"]
    (pod,) = bed.pods("sft")
    mounted = [volume["configMap"]["name"] for volume in pod["spec"]["volumes"] if "configMap" in volume]
    assert mounted == [code_map["metadata"]["name"]]

    again = await submit(code, me, bed, *sft, "--", "python", "train.py")
    assert (again.code, again.out) == (1, "")
    assert f"there is a TrainingJob {bed.namespace}/sft already: give another --name" in again.err

    await bed.finish("sft")
    followed = await following
    assert followed.code == 0, followed.err
    assert f"TrainingJob {bed.namespace}/sft is created" in followed.err
    assert "sft-r1: 1 pod" in followed.err
    assert f"{bed.namespace}/sft has ended: Complete" in followed.err

    await bed.delete("TrainingJob", "sft")
    created = await submit(code, me, bed, *sft, "--", "python", "train.py")
    assert created.code == 0, created.err
    assert created.out.startswith(f"TrainingJob {bed.namespace}/sft is created, and is ")
    assert f"charterer logs -f tj/sft -n {bed.namespace}" in created.out
    await bed.running("sft")
    (taken_over,) = await code_maps(bed)
    job = await bed.kube.get(TRAINING_JOBS.one("sft", bed.namespace))
    assert job["metadata"]["uid"] in [owner["uid"] for owner in taken_over["metadata"]["ownerReferences"]]

    await bed.delete("TrainingJob", "sft")
    async with asyncio.timeout(OPERATORS_PATIENCE):
        while await code_maps(bed):  # noqa: ASYNC110 - nobody watches ConfigMaps here
            await asyncio.sleep(0.2)


PAGE = Path(__file__).parents[2] / "docs/python.md"


async def test_the_example_of_the_page_on_python_submits_a_job_and_waits_for_its_end(
    bed: Bed, code: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the namespace of the kubeconfig, from the directory above the code."""
    bed.operator()
    await bed.pool()
    await bed.budget()
    monkeypatch.setenv("KUBECONFIG", str(engineer(bed)))
    account = f"--serviceaccount={bed.namespace}:engineer"
    bed.plane.kubectl("create", "clusterrolebinding", bed.namespace, "--clusterrole=charterer-view", account)
    monkeypatch.chdir(code.parent)
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    running = asyncio.create_task(asyncio.to_thread(exec, example, {}))
    await bed.until(lambda: bed.mirror.all(TRAINING_JOBS, bed.namespace))
    (job,) = [raw["metadata"]["name"] for raw in bed.mirror.all(TRAINING_JOBS, bed.namespace)]
    await bed.running(job)
    await bed.finish(job)
    await running
    ended, summary, costs = capsys.readouterr().out.splitlines()
    assert ended == f"{bed.namespace}/{job} True Completed"
    assert f"TrainingJob {bed.namespace}/{job} " in summary
    assert "'dollars': '" in costs


async def test_a_job_that_fails_or_is_deleted_fails_who_follows_it(bed: Bed, code: Path) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    me = engineer(bed)
    follow = ("--gpus", "4", "--image", "train:1", "--no-code", "--follow")
    following = [
        asyncio.create_task(submit(code, me, bed, *follow, "--name", name, "--", "false")) for name in ("fails", "goes")
    ]
    await bed.running("fails", "goes")
    await bed.kube.merge_patch(TRAINING_JOBS.one("fails", bed.namespace), {"spec": {"backoffLimit": 0}})
    await bed.finish("fails", exit_code=1)
    await bed.delete("TrainingJob", "goes")
    failed, deleted = await asyncio.gather(*following)
    assert (failed.code, deleted.code) == (1, 1)
    assert f"{bed.namespace}/fails has ended: " in failed.err
    assert f"TrainingJob {bed.namespace}/goes was deleted" in deleted.err


async def test_kubectl_takes_what_a_dry_run_prints(bed: Bed, code: Path) -> None:
    words = ("python", "train.py", "--lr", "1e-3", "on", "010")
    asked = ("--gpus", "1..4", "--image", "train:1", "--name", "sft", "--env", "ON=y")
    printed = await submit(code, engineer(bed), bed, *asked, "--dry-run", "--", *words)
    assert (printed.code, printed.err) == (0, "")
    for way in ((), ("--server-side",)):
        bed.plane.kubectl("apply", *way, "--force-conflicts" if way else "--wait=false", "-f", "-", input=printed.out)
    job = await bed.kube.get(TRAINING_JOBS.one("sft", bed.namespace))
    (trainer,) = job["spec"]["template"]["spec"]["containers"]
    assert trainer["command"] == list(words)
    assert trainer["env"] == [{"name": "ON", "value": "y"}]
    assert len(await code_maps(bed)) == 1


async def test_what_cannot_run_is_not_created(bed: Bed, code: Path) -> None:
    admin, me = bed.plane.kubeconfig, engineer(bed)
    no_image = await submit(code, me, bed, "--gpus", "1", "--", "python", "train.py")
    assert f"no image: give --image, or a default for namespace {bed.namespace} in the ConfigMap" in no_image.err
    bed.plane.kubectl("create", "configmap", "charterer-run", "-n", bed.namespace, "--from-literal", "image=train:2")
    named = ("--gpus", "1", "--name", "sft", "--", "python", "train.py")
    unpaid = await submit(code, admin, bed, *named)
    assert f"no GPUBudget selects namespace {bed.namespace}, so nobody would pay for the job" in unpaid.err
    await bed.budget()
    refused = await submit(code, admin, bed, "--gpus", "1", "--name", "Sft", "--", "python", "train.py")
    assert "the API server refuses the job: " in refused.err
    assert "metadata.name" in refused.err
    nowhere = await submit(code, admin, bed, "-n", "nowhere", *named)
    assert "there is no namespace nowhere: kubectl create namespace nowhere" in nowhere.err
    assert [ran.code for ran in (no_image, unpaid, refused, nowhere)] == [1] * 4
    with pytest.raises(NotFound):
        await bed.kube.get(TRAINING_JOBS.one("sft", bed.namespace))

    bed.plane.kubectl("create", "serviceaccount", "half", "-n", bed.namespace)
    rights = ("--verb=create,delete,get", "--resource=trainingjobs.charterer.dev,pods")
    bed.plane.kubectl("create", "role", "half", *rights, "-n", bed.namespace)
    account = f"--serviceaccount={bed.namespace}:half"
    bed.plane.kubectl("create", "rolebinding", "half", "--role=half", account, "-n", bed.namespace)
    half = bed.plane.service_account_kubeconfig(bed.namespace, "half")
    stranger = await submit(code, admin, bed, "--as", "stranger", "--image", "train:1", *named)
    assert f"you may not create the job in namespace {bed.namespace}: " in stranger.err
    without_code = await submit(code, half, bed, "--image", "train:1", *named)
    assert f"you may not create ConfigMaps in namespace {bed.namespace}" in without_code.err
    with pytest.raises(NotFound):
        await bed.kube.get(TRAINING_JOBS.one("sft", bed.namespace))

    write(code / "train.py", "print(2)")
    default = await submit(code, me, bed, *named)
    assert default.code == 0, default.err
    assert "no operator has said anything of it yet" in default.out
    assert "Warning: train.py differs from commit" in default.err
    job = await bed.kube.get(TRAINING_JOBS.one("sft", bed.namespace))
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "train:2"
