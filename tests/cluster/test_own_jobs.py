"""Somebody who has only ``edit`` in one namespace asks why: of their own jobs, and sees nothing of others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from charterer.cluster.paths import GPU_BUDGETS, NAMESPACES, TRAINING_JOBS
from tests.cluster.commands import Ran, charterer
from tests.testbed.bed import API, Bed

SECRET_AMOUNT = "765432"


async def a_rival_runs(bed: Bed) -> Sequence[str]:
    """Another team with a budget and a running job of its own in the same pool. Returns what must not be seen."""
    town = f"rivals-{bed.namespace}"
    await bed.kube.post(NAMESPACES.all(), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": town}})
    selector = {"matchLabels": {"kubernetes.io/metadata.name": town}}
    await bed.create("GPUBudget", "rich-uncle", {"amount": SECRET_AMOUNT, "namespaceSelector": selector})
    containers = [{"name": "trainer", "image": "train:1"}]
    spec = {"gpus": {"min": 4, "max": 4}, "template": {"spec": {"containers": containers}}}
    body = {"apiVersion": API, "kind": "TrainingJob", "metadata": {"name": "moonshot", "namespace": town}, "spec": spec}
    await bed.kube.post(TRAINING_JOBS.all(town), body)

    def runs() -> Any:
        found = bed.mirror.one(TRAINING_JOBS, "moonshot", town) or {}
        status = found.get("status") or {}
        return status.get("state") == "Running" and status["allocation"]["placements"][0]["rental"]

    rental = await bed.until(runs)
    return (town, "rivals", "moonshot", "rich-uncle", SECRET_AMOUNT, "765,432", str(rental))


def engineer(bed: Bed) -> Path:
    """The kubeconfig of somebody to whom only ``edit`` is bound, in the test's namespace."""
    name = "engineer"
    bed.plane.kubectl("create", "serviceaccount", name, "-n", bed.namespace)
    account = f"--serviceaccount={bed.namespace}:{name}"
    bed.plane.kubectl("create", "rolebinding", name, "--clusterrole=edit", account, "-n", bed.namespace)
    return bed.plane.service_account_kubeconfig(bed.namespace, name)


def seen(secrets: Sequence[str], *answers: Ran) -> list[str]:
    """The secrets that are in the answers as whole words."""
    said = "\n".join(ran.out + ran.err for ran in answers)
    return [secret for secret in secrets if re.search(rf"(?<![\w-]){re.escape(secret)}(?![\w-])", said)]


async def test_who_has_edit_in_one_namespace_asks_why_of_their_jobs_and_sees_nothing_of_others(bed: Bed) -> None:
    bed.operator()
    await bed.pool(maxNodes=2)
    secrets = await a_rival_runs(bed)
    await bed.budget()
    await bed.job("mine")
    await bed.running("mine")
    await bed.job("next")
    await bed.until(lambda: bed.tj("next").get("why") == "PoolFull" and bed.tj("next").get("options"))
    me, here = engineer(bed), ("-n", bed.namespace)

    runs = await charterer(me, "explain", "tj/mine", *here)
    assert (runs.code, runs.err) == (0, "")
    assert f"TrainingJob {bed.namespace}/mine is Running on 4 GPUs on a100 (run 1)" in runs.out
    assert "From what the operator wrote into the status" in runs.out
    (chosen,) = [line for line in runs.out.splitlines() if line.startswith("*")]
    assert re.match(r"\* +4 GPUs on a100 +NVIDIA-A100-SXM4-40GB +\$12\.00 .* chosen +it has them", chosen)
    waits = await charterer(me, "explain", "next", *here)
    assert "It waits (PoolFull): 4 GPUs on a100 wanted: " in waits.out
    whole = (await charterer(bed.plane.kubeconfig, "explain", "mine", *here, "-o", "json")).json
    own = await charterer(me, "explain", "mine", *here, "-o", "json")
    assert own.json["source"]["from"] == "status"
    for key in ("namespace", "name", "state", "reason", "budget"):
        assert own.json[key] == whole[key], key
    ranks = [
        [(row["pool"], row["gpus"], row["rank"], row["nodes"]) for row in it["options"]] for it in (own.json, whole)
    ]
    assert ranks[0] == ranks[1]

    planned = await charterer(me, "plan", *here)
    assert (planned.code, planned.err) == (0, "")
    assert re.search(r"mine +Running +4 +a100 +Rigid .* 4 GPUs on a100: ", planned.out)
    assert re.search(r"next +Queued +- +- +PoolFull ", planned.out)
    plain = await charterer(me, "plan", *here, "-o", "json")
    assert [(job["name"], job["best"]["pool"]) for job in plain.json["jobs"]] == [("mine", "a100"), ("next", "a100")]

    looked = await charterer(me, "doctor", *here)
    assert (looked.code, looked.err) == (0, "")
    assert f"jobs: TrainingJob {bed.namespace}/next waits (PoolFull): " in looked.out
    assert "-- skipped: " in looked.out
    await bed.job("broken", annotations={}, gpuTypes=["NVIDIA-NONE"])
    await bed.until(lambda: bed.tj("broken").get("why") == "NoOption")
    broken = await charterer(me, "doctor", *here)
    assert broken.code == 1
    assert "!! jobs: TrainingJob " in broken.out

    assert seen(secrets, runs, waits, own, planned, plain, looked, broken) == []
    town = secrets[0]
    for command in (("explain", "moonshot"), ("plan",), ("doctor",)):
        refused = await charterer(me, *command, "-n", town)
        assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1), command
        assert f'in the namespace "{town}"' in refused.err
        assert f"a RoleBinding to ClusterRole view or edit in namespace {town} shows what is there" in refused.err
        assert seen(secrets[2:], refused) == (["moonshot"] if "explain" in command else [])
    what_if = await charterer(me, "plan", *here, "--amount", "team=1")
    assert (what_if.code, what_if.out, what_if.err.count("\n")) == (1, "", 1)

    await bed.kube.delete(TRAINING_JOBS.one("moonshot", town))
    await bed.until(lambda: bed.mirror.one(TRAINING_JOBS, "moonshot", town) is None)
    assert await bed.kube.get(GPU_BUDGETS.one("rich-uncle"))
