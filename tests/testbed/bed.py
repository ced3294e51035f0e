"""The test bed of a cluster test: a real control plane with Charterer's charts installed, a fake cloud, operators.

Operators run with the token of the chart's own ServiceAccount, through a gate that can be closed. Every test ends the
same way: all is deleted, no instance and no object of Charterer's is left, and the ledger equals the cloud's bill to
the micro-dollar.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from charterer import app
from charterer.api.names import COMPLETION_INDEX, LABEL_RUN
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import NotFound
from charterer.cluster.lease import LeaseTimes
from charterer.cluster.paths import (
    GPU_BUDGETS,
    GPU_POOL_SETS,
    GPU_POOLS,
    GPU_RENTALS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SPEEDUP_PROFILES,
    TRAINING_JOBS,
    Resource,
)
from charterer.controller.loop import LoopTiming
from charterer.controller.surveys import SurveyPace
from charterer.domain.money import Money
from charterer.providers.accounts import Adapters, adapter_for
from tests.patience import OPERATORS_PATIENCE
from tests.testbed.controlplane import EXIT_CODE, ControlPlane
from tests.testbed.fakecloud import FakeCloudProcess
from tests.testbed.gate import Gate
from tests.testbed.mirror import Mirror
from tests.testbed.operators import Around, OperatorProcess

T = TypeVar("T")

API = "charterer.dev/v1alpha1"
SYSTEM = "charterer"
PATIENT = LeaseTimes(duration=40.0, renew=1.0, retry=0.3, renew_deadline=30.0)
"""Lease of an operator that keeps the lead, also on a machine that is busy for many seconds."""
HASTY = LeaseTimes(duration=6.0, renew=1.0, retry=0.3, renew_deadline=4.0)
"""Lease of an operator that loses the lead within seconds."""
_ROOT = Path(__file__).parents[2]
_RESOURCES: Mapping[str, Resource] = {
    "TrainingJob": TRAINING_JOBS,
    "GPUBudget": GPU_BUDGETS,
    "GPUPool": GPU_POOLS,
    "GPUPoolSet": GPU_POOL_SETS,
    "SpeedupProfile": SPEEDUP_PROFILES,
}
_numbers = itertools.count(1)
Gpus = Mapping[str, object]


def group(name: str, **fields: object) -> Mapping[str, object]:
    """A group of the fake cloud; by default nodes of four A100s for $12 an hour that are ready at once."""
    return {
        "name": name,
        "instanceType": "fake.a100-4x",
        "gpuType": "NVIDIA-A100-SXM4-40GB",
        "gpusPerInstance": 4,
        "zone": "fake-1a",
        "hourlyPrice": "12.00",
        "maxSize": 20,
        "startupSeconds": [0.2],
        "retrySeconds": 0.5,
        "listedSeconds": 4,
        "nodeDeletionSeconds": 60,
        **fields,
    }


def install_charts(plane: ControlPlane, *values: str) -> None:
    """Helm installs the CRDs and the operator's chart without pods, with more ``values`` (NAME=VALUE), or again."""
    plane.helm("upgrade", "--install", "charterer-crds", str(_ROOT / "charts" / "charterer-crds"), "--take-ownership")
    plane.helm(
        *("upgrade", "--install", "charterer", str(_ROOT / "charts" / "charterer"), "--namespace", SYSTEM),
        *("--create-namespace", "--set", "replicas=0", "--set", "fakeCloud.enabled=true"),
        *("--set", "karpenter.enabled=true", "--set", "karpenter.nodeClasses={kwoknodeclasses.karpenter.kwok.sh}"),
        *[word for value in values for word in ("--set", value)],
    )


@dataclass(slots=True)
class Bed:
    """What a test acts with. ``namespace`` is the test's own; pools and budgets get names of its own too."""

    plane: ControlPlane
    kube: Client
    cloud: FakeCloudProcess
    gate: Gate
    mirror: Mirror
    directory: Path
    namespace: str
    operators: list[OperatorProcess] = field(default_factory=list)
    adapters: Adapters = adapter_for
    """How its operators reach the clouds."""

    # --- acting ------------------------------------------------------------------------------------------------------

    def operator(
        self, name: str = "charterer-0", *, killer: Around | None = None, nameless: bool = False, **changes: Any
    ) -> OperatorProcess:
        """Start an operator through the gate."""
        settings = app.Settings(
            pod_name=name,
            namespace=SYSTEM,
            kubeconfig=self.plane.service_account_kubeconfig(SYSTEM, "charterer", through_url=self.gate.url),
            host="127.0.0.1",
            http_port=0,
            metrics_port=0,
            progress_port=0,
            progress_url="https://localhost",
            surveys=SurveyPace(quiet_seconds=0.5, moving_seconds=0.15, quote_seconds=1.0, lag_fraction=0.0),
            timing=LoopTiming(idle_seconds=2.0, batch_idle_seconds=0.1),
            lease=PATIENT,
        )
        wanted, log = replace(settings, **changes), self.directory / f"{name}.log"
        free = partial(self._free_lease, name)
        process = OperatorProcess(wanted, log, killer, self.adapters, nameless=nameless, begins=free)
        self.operators.append(process)
        return process

    def _free_lease(self, name: str) -> None:
        """Take the Lease from a dead operator of this name, as if the time for which it holds had passed."""
        for raw in self.plane.call("GET", LEASES.all(SYSTEM))["items"]:
            if (raw["spec"].get("holderIdentity") or "").startswith(f"{name}_"):
                self.plane.call("PATCH", LEASES.one(raw["metadata"]["name"], SYSTEM), {"spec": {"holderIdentity": ""}})

    async def create(self, kind: str, name: str, spec: Mapping[str, object], **metadata: object) -> RawObject:
        """Create one of Charterer's objects."""
        resource = _RESOURCES[kind]
        namespace = self.namespace if resource.namespaced else None
        named = {"name": name, **({"namespace": namespace} if namespace else {}), **metadata}
        body = {"apiVersion": API, "kind": kind, "metadata": named, "spec": dict(spec)}
        return await self.kube.post(resource.all(namespace), body)

    async def budget(self, name: str = "team", **spec: object) -> None:
        """A budget of the test's namespace; by default with plenty of money, all of it for the rest of the month."""
        selector = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        whole = {"amount": "1000000", "openingSpend": "0"}
        await self.create("GPUBudget", name, {**whole, "namespaceSelector": selector, **spec})

    async def pool(self, name: str = "a100", **spec: object) -> None:
        """A pool of the cloud's group of the same name."""
        fake = {"endpoint": self.cloud.url, "group": name}
        await self.create(
            "GPUPool", name, {"fake": fake, "maxNodes": 10, "startSeconds": 1, "cooldownSeconds": 2, **spec}
        )

    async def job(
        self, name: str, gpus: int | Gpus = 4, *, annotations: Mapping[str, str] | None = None, **spec: object
    ) -> None:
        """A rigid job of so many GPUs, or with this ``spec.gpus``; its pods run until ``finish`` ends them."""
        template = {
            "metadata": {"annotations": dict(annotations or {})},
            "spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "trainer", "image": "train:1"}]},
        }
        asked = {"min": gpus, "max": gpus} if isinstance(gpus, int) else gpus
        await self.create("TrainingJob", name, {"gpus": asked, "template": template, **spec})

    async def apply_yaml(self, text: str) -> None:
        """kubectl apply."""
        self.plane.kubectl("apply", "-f", "-", input=text)

    async def finish(self, job: str, exit_code: int = 0, *, index: int | None = None) -> None:
        """The training processes of the job's live pods (or the one at ``index``) end with this code.

        A pod that fails takes its peers down: they may be gone before it is their turn.
        """
        for told, pod in enumerate(await self.until(lambda: self._training(job, index))):
            path = PODS.one(pod["metadata"]["name"], self.namespace)
            try:
                await self.kube.merge_patch(path, {"metadata": {"annotations": {EXIT_CODE: str(exit_code)}}})
            except NotFound:
                if not told:
                    raise

    def _training(self, job: str, index: int | None) -> list[RawObject]:
        """The live pods of the job's run (or the one at ``index``) once all of them are Running.

        The watch of pods may be later than that of TrainingJobs: the job is Running, its pods are not listed so yet.
        """
        run = self.run(job)
        live = [pod for pod in self.pods(job) if pod["status"].get("phase") not in ("Succeeded", "Failed")]
        live = [pod for pod in live if not run or pod["metadata"]["labels"].get(LABEL_RUN) == str(run)]
        if index is not None:
            live = [pod for pod in live if pod["metadata"]["annotations"].get(COMPLETION_INDEX) == str(index)]
        return live if all(pod["status"].get("phase") == "Running" for pod in live) else []

    async def fault(self, kind: str, times: int = 1, **match: str) -> None:
        """The cloud's next so many calls that match (``method``, ``path``) go wrong in this way."""
        await self.cloud.admin("POST", "/faults", {"match": match, "times": times, "kind": kind})

    async def delete(self, kind: str, name: str) -> None:
        """Delete one of Charterer's objects, if it still exists."""
        resource = _RESOURCES[kind]
        with suppress(NotFound):
            await self.kube.delete(resource.one(name, self.namespace if resource.namespaced else None))

    # --- seeing ------------------------------------------------------------------------------------------------------

    def tj(self, name: str) -> RawObject:
        """The TrainingJob's status; empty while there is none."""
        raw = self.mirror.one(TRAINING_JOBS, name, self.namespace)
        return {} if raw is None else raw.get("status") or {}

    def state(self, name: str) -> str:
        """The word in its State column."""
        return str(self.tj(name).get("state", ""))

    def run(self, name: str) -> int:
        """The number of the run of the job's allocation, 0 without one."""
        return int((self.tj(name).get("allocation") or {}).get("run", 0))

    def condition(self, raw: RawObject | None, kind: str) -> Mapping[str, str]:
        """The condition of type ``kind`` of an object; empty if it has none."""
        conditions = ((raw or {}).get("status") or {}).get("conditions") or []
        return next((condition for condition in conditions if condition["type"] == kind), {})

    def pods(self, job: str) -> list[RawObject]:
        """All pods of all runs of the job."""
        pods = self.mirror.all(PODS, self.namespace)
        return [pod for pod in pods if pod["metadata"]["labels"].get("charterer.dev/job") == job]

    def runs(self, job: str) -> list[RawObject]:
        """The batch/v1 Jobs of the job."""
        runs = self.mirror.all(JOBS, self.namespace)
        return [run for run in runs if run["metadata"]["labels"].get("charterer.dev/job") == job]

    def rentals(self, phase: str | None = None) -> list[RawObject]:
        """The GPURentals; if ``phase`` is given, only those in it."""
        rentals = self.mirror.all(GPU_RENTALS)
        return [raw for raw in rentals if phase is None or (raw.get("status") or {}).get("phase", "Requested") == phase]

    async def instances(self) -> list[Mapping[str, Any]]:
        """The machines of the cloud that have not ended, as they are now, without lag."""
        answer = await self.cloud.admin("GET", "/instances")
        return [instance for instance in answer["instances"] if instance["state"] != "Ended"]

    async def bill(self) -> tuple[Sized, int]:
        """What the cloud charges for: its lines, and their sum in micro-dollars."""
        return await self.cloud.bill()

    async def launched(self) -> int:
        """Number of machines ever launched."""
        return len((await self.cloud.bill())[0])

    async def until(self, look: Callable[[], T], seconds: float = OPERATORS_PATIENCE) -> T:
        """Wait for a state of the cluster."""
        return await self.mirror.until(look, seconds, self.describe)

    async def running(self, *jobs: str, seconds: float = OPERATORS_PATIENCE) -> None:
        """Wait until these jobs run."""
        await self.until(lambda: all(self.state(job) == "Running" for job in jobs), seconds)

    async def running_again(self, job: str, after: int, seconds: float = OPERATORS_PATIENCE) -> None:
        """Wait until a later run than ``after`` of the job has a pod that runs, and the job says so.

        A job's State is written after its allocation, and may be that of the run before.
        """
        await self.until(lambda: self.run(job) > after and self.state(job) == "Running", seconds)
        await self.until(lambda: self._training(job, None), seconds)

    async def complete(self, *jobs: str, seconds: float = OPERATORS_PATIENCE) -> None:
        """Wait until these jobs are complete."""
        await self.until(lambda: all(self.state(job) == "Complete" for job in jobs), seconds)

    def describe(self) -> str:
        """The state of all objects, for the message of a test that fails."""
        parts = []
        for resource in (TRAINING_JOBS, GPU_RENTALS, GPU_POOL_SETS, GPU_POOLS, GPU_BUDGETS):
            for raw in self.mirror.all(resource):
                status = {key: value for key, value in (raw.get("status") or {}).items() if key != "conditions"}
                conditions = [
                    f"{condition['type']}={condition['status']}/{condition['reason']}: {condition['message']}"
                    for condition in (raw.get("status") or {}).get("conditions") or []
                    if condition.get("message")
                ]
                parts.append(f"{raw['kind']} {raw['metadata']['name']} {json.dumps(status)} {conditions}")
        for raw in [*self.mirror.all(JOBS), *self.mirror.all(PODS), *self.mirror.all(NODES)]:
            metadata, status = raw["metadata"], raw.get("status") or {}
            detail = {key: status[key] for key in ("phase", "active", "ready", "succeeded", "failed") if key in status}
            labels = {key: value for key, value in (metadata.get("labels") or {}).items() if "run.charterer.dev" in key}
            gone = " deleting" if "deletionTimestamp" in metadata else ""
            parts.append(f"{raw['kind']} {metadata['name']} {detail} {labels} {raw['spec'].get('nodeName', '')}{gone}")
        parts += [f"--- {item.settings.pod_name} alive={item.alive}\n{item.tail()}" for item in self.operators]
        return "\n".join(parts)

    # --- the end of every test ---------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Delete everything and check that nothing is left and that every cent is accounted for."""
        if not self.operators:  # nothing was rented, and no finalizer holds an object
            return
        self.gate.open()
        for operator in self.operators:
            operator.thaw()
        if not any(operator.alive for operator in self.operators):
            self.operator()
        for raw in self.mirror.all(TRAINING_JOBS, self.namespace):
            await self.delete("TrainingJob", raw["metadata"]["name"])
        await self.settle()
        await self.until(lambda: not self.mirror.all(TRAINING_JOBS) and not self.rentals())
        departed = [raw for raw in self.mirror.departed if raw["kind"] == "GPUBudget"]
        budgets = await self.kube.list(GPU_BUDGETS.all())
        ledger = sum(self.lifetime(raw) for raw in [*budgets.items, *departed])
        lines, bill = await self.bill()
        assert await self.instances() == [], "instances were left running"
        assert 0 <= ledger - bill <= self.most_above_bill(), (
            f"ledger {ledger} µ$ is not the bill {bill} µ$: {lines}\n{self.describe()}"
        )
        for kind in ("GPUPoolSet", "GPUPool", "GPUBudget"):
            for raw in self.mirror.all(_RESOURCES[kind]):
                await self.delete(kind, raw["metadata"]["name"])
        await self.until(lambda: not self.mirror.all(GPU_POOLS) and not self.mirror.all(GPU_BUDGETS))
        for operator in self.operators:
            await operator.stop()

    async def settle(self) -> None:
        """When all machines have ended, the cloud stops listing them; otherwise it would list each for some seconds."""
        await self.until(lambda: len(self.rentals("Ended")) == len(self.rentals()))
        for name in {machine["group"] for machine in (await self.cloud.admin("GET", "/instances"))["instances"]}:
            await self.cloud.admin("PUT", f"/groups/{name}", {"listedSeconds": 0})

    def most_above_bill(self) -> int:
        """Micro-dollars by which the ledger may be above the bill: 0 where the cloud tells when machines ended."""
        return 0

    def lifetime(self, raw: RawObject) -> int:
        """Micro-dollars of all rentals that a budget's ledger has ever folded."""
        return Money.parse((raw.get("status") or {}).get("lifetime") or "0").micros


async def make_bed(plane: ControlPlane, directory: Path, groups: Sequence[Mapping[str, object]]) -> Bed:
    """A bed whose fake cloud sells these groups."""
    return Bed(*await parts_of_bed(plane, directory, groups))


async def parts_of_bed(
    plane: ControlPlane,
    directory: Path,
    groups: Sequence[Mapping[str, object]],
    more: Sequence[Resource] = (),
    *,
    simulated_nodes: bool = True,
    cloud_address: str = "127.0.0.1",
) -> tuple[ControlPlane, Client, FakeCloudProcess, Gate, Mirror, Path, str]:
    """What a bed is made of; its mirror follows ``more`` resources, and its cloud registers ``simulated_nodes``."""
    number = next(_numbers)
    kube = await Client.connect(plane.kubeconfig)
    namespace = f"t{number}"
    await kube.post(NAMESPACES.all(), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    mirror = Mirror(kube, more)
    await mirror.start()
    nodes = plane.service_account_kubeconfig(SYSTEM, "charterer-fakecloud") if simulated_nodes else None
    cloud = await FakeCloudProcess.start({"groups": list(groups)}, directory, nodes, address=cloud_address)
    address = urlsplit(plane.url)
    gate = Gate(address.hostname or "127.0.0.1", address.port or 443)
    return plane, kube, cloud, gate, mirror, directory, namespace


async def dismantle(bed: Bed) -> None:
    """End all that still runs and leave the control plane clean for the next test, even after a failed one."""
    for operator in bed.operators:
        operator.kill()
    bed.gate.stop()
    await bed.cloud.stop()
    for resource in (GPU_RENTALS, GPU_BUDGETS, GPU_POOL_SETS, GPU_POOLS):
        for raw in (await bed.kube.list(resource.all())).items:
            path = resource.one(raw["metadata"]["name"])
            with suppress(NotFound):
                await bed.kube.merge_patch(path, {"metadata": {"finalizers": None}})
                await bed.kube.delete(path)
    for raw in (await bed.kube.list(TRAINING_JOBS.all(bed.namespace))).items:
        await bed.kube.delete(TRAINING_JOBS.one(raw["metadata"]["name"], bed.namespace))
    for raw in (await bed.kube.list(PODS.all(bed.namespace))).items:
        with suppress(NotFound):
            await bed.kube.delete(PODS.one(raw["metadata"]["name"], bed.namespace), grace=0)
    for raw in (await bed.kube.list(NODES.all())).items:
        with suppress(NotFound):
            await bed.kube.delete(NODES.one(raw["metadata"]["name"]))
    await bed.mirror.stop()
    await bed.kube.close()
