"""The bed of a cluster test: a real control plane with Charterer's charts, a fake cloud, and operators.

Operators use the token of the chart's ServiceAccount and connect through a gate that tests can close. Every test ends
in the same way: all objects are deleted, no instance and no Charterer object is left, and the ledger equals the cloud's
bill to the micro-dollar.
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
"""Lease times of an operator that keeps the lead even if the machine is busy for many seconds."""
HASTY = LeaseTimes(duration=6.0, renew=1.0, retry=0.3, renew_deadline=4.0)
"""Lease times of an operator that loses the lead within seconds."""
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
    """Return a group of the fake cloud. The default has nodes of four A100s for $12 an hour, ready at once."""
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
        "listedSeconds": 15,
        "nodeDeletionSeconds": 60,
        **fields,
    }


def install_charts(plane: ControlPlane, *values: str) -> None:
    """Install or upgrade the CRDs and the operator's chart with Helm, without pods.

    ``values`` are more NAME=VALUE settings.
    """
    plane.helm("upgrade", "--install", "charterer-crds", str(_ROOT / "charts" / "charterer-crds"), "--take-ownership")
    plane.helm(
        *("upgrade", "--install", "charterer", str(_ROOT / "charts" / "charterer"), "--namespace", SYSTEM),
        *("--create-namespace", "--set", "replicas=0", "--set", "fakeCloud.enabled=true"),
        *("--set", "karpenter.enabled=true", "--set", "karpenter.nodeClasses={kwoknodeclasses.karpenter.kwok.sh}"),
        *[word for value in values for word in ("--set", value)],
    )


@dataclass(slots=True)
class Bed:
    """A test's cluster and its helpers.

    ``namespace`` belongs to this test only, but pools and budgets have no namespace.
    """

    plane: ControlPlane
    kube: Client
    cloud: FakeCloudProcess
    gate: Gate
    mirror: Mirror
    directory: Path
    namespace: str
    operators: list[OperatorProcess] = field(default_factory=list)
    adapters: Adapters = adapter_for
    """Adapters by which the operators reach the clouds."""

    # --- actions ------------------------------------------------------------------------------------------------------

    def operator(
        self, name: str = "charterer-0", *, killer: Around | None = None, nameless: bool = False, **changes: Any
    ) -> OperatorProcess:
        """Start an operator that connects through the gate."""
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
        """Release the Lease of a dead operator with this name, as if the Lease had expired."""
        for raw in self.plane.call("GET", LEASES.all(SYSTEM))["items"]:
            if (raw["spec"].get("holderIdentity") or "").startswith(f"{name}_"):
                self.plane.call("PATCH", LEASES.one(raw["metadata"]["name"], SYSTEM), {"spec": {"holderIdentity": ""}})

    async def create(self, kind: str, name: str, spec: Mapping[str, object], **metadata: object) -> RawObject:
        """Create an object of a Charterer kind."""
        resource = _RESOURCES[kind]
        namespace = self.namespace if resource.namespaced else None
        named = {"name": name, **({"namespace": namespace} if namespace else {}), **metadata}
        body = {"apiVersion": API, "kind": kind, "metadata": named, "spec": dict(spec)}
        return await self.kube.post(resource.all(namespace), body)

    async def budget(self, name: str = "team", **spec: object) -> None:
        """Create a budget for the test's namespace. The default has plenty of money, all for the rest of the month."""
        selector = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        whole = {"amount": "1000000", "openingSpend": "0"}
        await self.create("GPUBudget", name, {**whole, "namespaceSelector": selector, **spec})

    async def pool(self, name: str = "a100", **spec: object) -> None:
        """Create a pool for the cloud's group of the same name."""
        fake = {"endpoint": self.cloud.url, "group": name}
        await self.create(
            "GPUPool", name, {"fake": fake, "maxNodes": 10, "startSeconds": 1, "cooldownSeconds": 2, **spec}
        )

    async def job(
        self, name: str, gpus: int | Gpus = 4, *, annotations: Mapping[str, str] | None = None, **spec: object
    ) -> None:
        """Create a job with a fixed number of GPUs, or with this ``spec.gpus``.

        Its pods run until ``finish`` ends them.
        """
        template = {
            "metadata": {"annotations": dict(annotations or {})},
            "spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "trainer", "image": "train:1"}]},
        }
        asked = {"min": gpus, "max": gpus} if isinstance(gpus, int) else gpus
        await self.create("TrainingJob", name, {"gpus": asked, "template": template, **spec})

    async def apply_yaml(self, text: str) -> None:
        """Run kubectl apply."""
        self.plane.kubectl("apply", "-f", "-", input=text)

    async def finish(self, job: str, exit_code: int = 0, *, index: int | None = None) -> None:
        """End the training processes of the job's live pods (or of the pod at ``index``) with this exit code.

        A failed pod ends its peers, so later pods may no longer exist.
        """
        for told, pod in enumerate(await self.until(lambda: self._training(job, index))):
            path = PODS.one(pod["metadata"]["name"], self.namespace)
            try:
                await self.kube.merge_patch(path, {"metadata": {"annotations": {EXIT_CODE: str(exit_code)}}})
            except NotFound:
                if not told:
                    raise

    def _training(self, job: str, index: int | None) -> list[RawObject]:
        """Return the live pods of the job's run (or the pod at ``index``) once all are Running, else an empty list.

        The watch of pods may lag behind the watch of TrainingJobs, so a job can be Running before its pods appear as
        Running.
        """
        run = self.run(job)
        live = [pod for pod in self.pods(job) if pod["status"].get("phase") not in ("Succeeded", "Failed")]
        live = [pod for pod in live if not run or pod["metadata"]["labels"].get(LABEL_RUN) == str(run)]
        if index is not None:
            live = [pod for pod in live if pod["metadata"]["annotations"].get(COMPLETION_INDEX) == str(index)]
        return live if all(pod["status"].get("phase") == "Running" for pod in live) else []

    async def fault(self, kind: str, times: int = 1, **match: str) -> None:
        """Make the cloud's next ``times`` calls that match (``method``, ``path``) fail in this way."""
        await self.cloud.admin("POST", "/faults", {"match": match, "times": times, "kind": kind})

    async def delete(self, kind: str, name: str) -> None:
        """Delete an object of a Charterer kind, if it still exists."""
        resource = _RESOURCES[kind]
        with suppress(NotFound):
            await self.kube.delete(resource.one(name, self.namespace if resource.namespaced else None))

    # --- reads --------------------------------------------------------------------------------------------------------

    def tj(self, name: str) -> RawObject:
        """Return the TrainingJob's status, empty if it does not exist."""
        raw = self.mirror.one(TRAINING_JOBS, name, self.namespace)
        return {} if raw is None else raw.get("status") or {}

    def state(self, name: str) -> str:
        """Return the value of the job's State column."""
        return str(self.tj(name).get("state", ""))

    def run(self, name: str) -> int:
        """Return the number of the job's current run, 0 without an allocation."""
        return int((self.tj(name).get("allocation") or {}).get("run", 0))

    def condition(self, raw: RawObject | None, kind: str) -> Mapping[str, str]:
        """Return the object's condition of this type, empty if it has none."""
        conditions = ((raw or {}).get("status") or {}).get("conditions") or []
        return next((condition for condition in conditions if condition["type"] == kind), {})

    def pods(self, job: str) -> list[RawObject]:
        """Return all pods of all runs of the job."""
        pods = self.mirror.all(PODS, self.namespace)
        return [pod for pod in pods if pod["metadata"]["labels"].get("charterer.dev/job") == job]

    def runs(self, job: str) -> list[RawObject]:
        """Return the batch/v1 Jobs of the job's runs."""
        runs = self.mirror.all(JOBS, self.namespace)
        return [run for run in runs if run["metadata"]["labels"].get("charterer.dev/job") == job]

    def rentals(self, phase: str | None = None) -> list[RawObject]:
        """Return the GPURentals, or only those in this ``phase``."""
        rentals = self.mirror.all(GPU_RENTALS)
        return [raw for raw in rentals if phase is None or (raw.get("status") or {}).get("phase", "Requested") == phase]

    async def instances(self) -> list[Mapping[str, Any]]:
        """Return the cloud's machines that have not ended, in their present state."""
        answer = await self.cloud.admin("GET", "/instances")
        return [instance for instance in answer["instances"] if instance["state"] != "Ended"]

    async def bill(self) -> tuple[Sized, int]:
        """Return the lines of the cloud's bill, and their sum in micro-dollars."""
        return await self.cloud.bill()

    async def launched(self) -> int:
        """Return the number of machines ever launched."""
        return len((await self.cloud.bill())[0])

    async def until(self, look: Callable[[], T], seconds: float = OPERATORS_PATIENCE) -> T:
        """Wait until ``look`` returns a true value."""
        return await self.mirror.until(look, seconds, self.describe)

    async def running(self, *jobs: str, seconds: float = OPERATORS_PATIENCE) -> None:
        """Wait until these jobs run."""
        await self.until(lambda: all(self.state(job) == "Running" for job in jobs), seconds)

    async def running_again(self, job: str, after: int, seconds: float = OPERATORS_PATIENCE) -> None:
        """Wait until a run of the job later than ``after`` has running pods, and the job's state is Running.

        The state is written after the allocation, so the state may belong to the earlier run at first.
        """
        await self.until(lambda: self.run(job) > after and self.state(job) == "Running", seconds)
        await self.until(lambda: self._training(job, None), seconds)

    async def complete(self, *jobs: str, seconds: float = OPERATORS_PATIENCE) -> None:
        """Wait until these jobs are complete."""
        await self.until(lambda: all(self.state(job) == "Complete" for job in jobs), seconds)

    def describe(self) -> str:
        """Describe the state of all objects for the message of a failed test."""
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

    # --- the end of every test ----------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Delete everything, and check that nothing is left and that the ledger equals the bill."""
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

    async def given_back(self) -> None:
        """Wait until all machines have been given back. Their rentals stay while the cloud still lists the machines."""
        await self.until(lambda: len(self.rentals("Ended")) == len(self.rentals()))

    async def settle(self) -> None:
        """Once all machines have ended, make the cloud stop listing them, which would otherwise take some seconds."""
        await self.given_back()
        for name in {machine["group"] for machine in (await self.cloud.admin("GET", "/instances"))["instances"]}:
            await self.cloud.admin("PUT", f"/groups/{name}", {"listedSeconds": 0})

    def most_above_bill(self) -> int:
        """Return micro-dollars by which the ledger may exceed the bill. 0 if the cloud reports the end of machines."""
        return 0

    def lifetime(self, raw: RawObject) -> int:
        """Return micro-dollars of all rentals that the budget's ledger has ever folded."""
        return Money.parse((raw.get("status") or {}).get("lifetime") or "0").micros


async def make_bed(plane: ControlPlane, directory: Path, groups: Sequence[Mapping[str, object]]) -> Bed:
    """Make a bed whose fake cloud has these groups."""
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
    """Make the parts of a bed. The mirror also follows ``more`` resources.

    ``simulated_nodes``: the cloud registers Nodes.
    """
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
    """End all processes and clean the control plane for the next test, even after a failed one."""
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
