"""Installing the CRDs, and for every CEL rule of theirs an object that it accepts and one that it refuses."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from charterer.api.models.clouds import CLOUD_FIELDS
from tests.testbed.controlplane import ControlPlane
from tests.testbed.served import install_definitions

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
CRDS = ROOT / "crds"


def install_crds(plane: ControlPlane) -> ControlPlane:
    """Returns once all kinds can be used; may be repeated."""
    install_definitions(plane, CRDS)
    return plane


_QUOTE: Json = {"at": "2026-01-30T12:00:00Z", "costLow": "10.5", "costHigh": "40"}
POD_SPEC: Json = {"containers": [{"name": "trainer", "image": "acme/sft:1", "command": ["torchrun", "train.py"]}]}
GPU_POD_SPEC: Json = {
    "containers": [{"name": "trainer", "image": "acme/sft:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}]
}

SMALLEST: dict[str, Json] = {
    "GPUBudget": {"amount": "60000", "namespaceSelector": {}},
    "GPUPool": {"fake": {"endpoint": "http://127.0.0.1:1", "group": "a100"}, "maxNodes": 6},
    "GPUPoolSet": {"template": {"spec": {"maxNodes": 6}}, "axes": [{"name": "group", "values": [{"name": "a100"}]}]},
    "TrainingJob": {"gpus": {"min": 1, "max": 8}, "template": {"spec": POD_SPEC}},
    "SpeedupProfile": {"curves": [{"gpuType": "A100", "throughput": [{"gpus": 8, "value": 410}]}]},
    "GPURental": {
        "pool": "a100",
        "fake": {"endpoint": "http://127.0.0.1:1", "group": "a100"},
        "budget": "team",
        "reserved": "12.00",
        "worstHourly": "12.00",
    },
}
"""The smallest spec of each kind."""


def make(kind: str, name: str = "x", **changes: Any) -> Json:
    """The smallest object of a kind with these fields of its spec changed."""
    metadata: Json = {"name": name}
    if kind in ("TrainingJob", "SpeedupProfile"):
        metadata["namespace"] = "default"
    spec = {**deepcopy(SMALLEST[kind]), **changes}
    return {"apiVersion": "charterer.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


@dataclass(frozen=True, slots=True)
class Case:
    """``rule`` is the message of the rule of ``kind``. With ``before``, the two are updates of that object.

    ``status``: the updates are of the status subresource. ``by_operator``: only the operator may write it.
    """

    kind: str
    rule: str
    passes: Json
    fails: Json
    before: Json | None = None
    status: bool = False
    by_operator: bool = False


def _rental_in(phase: str) -> Json:
    return {**make("GPURental", "rule-phase"), "status": {"phase": phase}}


def _selecting(**expression: Any) -> Json:
    return make("GPUBudget", namespaceSelector={"matchExpressions": [{"key": "team", **expression}]})


def _shares(*percents: int, **fields: object) -> Json:
    """A budget with shares of that many percent, by user."""
    shares = [{"name": f"s{at}", "user": f"user {at}", "percent": each, **fields} for at, each in enumerate(percents)]
    return make("GPUBudget", shares=shares)


def _quiet(**hours: Any) -> Json:
    return make("GPUBudget", moves={"quietHours": [hours]})


def _types(throughput: list[Json], other: float) -> Json:
    """A profile with a table, and the throughput of one GPU of another type."""
    power = {"exponent": 0.8, "value": other}
    return make(
        "SpeedupProfile",
        curves=[{"gpuType": "A100", "throughput": throughput}, {"gpuType": "H100", "power": power}],
    )


def _curve(**form: Any) -> Json:
    return make("SpeedupProfile", curves=[{"gpuType": "A100", **form}])


def _template(**fields: Any) -> Json:
    return make("TrainingJob", template={"spec": {**POD_SPEC, **fields}})


def _batch(**changes: int) -> Json:
    return make("SpeedupProfile", batch={"own": 64, "largest": 4096, "largestPerGpu": 32, **changes})


def gpu_hours(amount: object) -> Json:
    """The smallest GPUBudget with these GPU-hours."""
    return make("GPUBudget", gpuHours=[{"gpuType": "NVIDIA-H100-80GB-HBM3", "amount": amount}])


def dollars(limit: str) -> str:
    return f'write dollars from 0 to less than {limit} as digits in quotes, such as "60000" or "12.80"'


_OWN_PARENT = "spec.parent must name another GPUBudget: none is its own parent"
_ONE_CLOUD = f"a pool needs exactly one cloud: set exactly one of {', '.join(CLOUD_FIELDS)}"

CASES: tuple[Case, ...] = (
    Case(
        "GPUBudget",
        "metadata.name must have at most 63 characters: it becomes a label",
        make("GPUBudget", "b" * 63),
        make("GPUBudget", "b" * 64),
    ),
    *(
        Case(
            "GPUBudget",
            dollars("a billion"),
            make("GPUBudget", amount="999999999.999999"),
            make("GPUBudget", **amounts),
        )
        for amounts in (
            {"amount": "-5"},
            {"amount": "$60,000"},
            {"amount": 60000},
            {"amount": "lots", "hardLimit": "60000"},
            {"amount": "60000", "hardLimit": 70000},
        )
    ),
    Case(
        "GPUBudget",
        dollars("a million"),
        make("GPUBudget", maxHourlyRate="999999.999999"),
        make("GPUBudget", maxHourlyRate="1000000"),
    ),
    *(
        Case(
            kind,
            'three digits after the point may be meant as thousands: write "60000", or "60.00" for sixty dollars',
            make(kind, **{field: "60.0000"}),
            make(kind, **{field: "60.000"}),
        )
        for kind, field in (("GPUBudget", "amount"), ("TrainingJob", "maxCost"))
    ),
    *(
        Case(
            "GPUBudget",
            'write GPU-hours from 0 to less than a billion as digits in quotes, such as "60000" or "12.80"',
            gpu_hours("2000"),
            gpu_hours(wrong),
        )
        for wrong in (2000, "-1", "many", "1000000000")
    ),
    Case(
        "GPUBudget",
        'three digits after the point may be meant as thousands: write "2000", or "2.00" for two hours',
        gpu_hours("2.00"),
        gpu_hours("2.000"),
    ),
    Case("TrainingJob", dollars("a billion"), make("TrainingJob", maxCost="50"), make("TrainingJob", maxCost=50)),
    Case("TrainingJob", dollars("a billion"), make("TrainingJob", maxCost="0.5"), make("TrainingJob", maxCost="five")),
    Case(
        "TrainingJob",
        "profileName must be a name that a SpeedupProfile can have: lower-case letters, digits, '-' and '.'",
        make("TrainingJob", profileName="sft-7b.v2"),
        make("TrainingJob", profileName="My_Profile"),
    ),
    Case(
        "GPUPool",
        'write a percentage from -99.99% to +99.99% with its sign, such as "-10%"',
        make("GPUPool", price={"adjustment": "-99.99%"}),
        make("GPUPool", price={"adjustment": "-150%"}),
    ),
    Case(
        "GPUPool",
        dollars("a million"),
        make("GPUPool", price={"hourly": "12.80"}),
        make("GPUPool", price={"hourly": "$12.80"}),
    ),
    Case(
        "GPUBudget",
        "hardLimit must be at least amount: a budget cannot aim at more than it may ever spend",
        make("GPUBudget", amount="100000000.000001", hardLimit="100000000.000001"),
        make("GPUBudget", amount="100000000.000002", hardLimit="100000000.000001"),
    ),
    Case("GPUBudget", _OWN_PARENT, make("GPUBudget", "team", parent="company"), make("GPUBudget", "x", parent="x")),
    Case(
        "GPUBudget",
        "timeZone must be a name of the IANA time zone database, such as Europe/Berlin",
        make("GPUBudget", timeZone="America/Argentina/Buenos_Aires"),
        make("GPUBudget", timeZone="Local"),
    ),
    Case(
        "GPUBudget",
        "In and NotIn need values; Exists and DoesNotExist take none",
        _selecting(operator="In", values=["research"]),
        _selecting(operator="Exists", values=["research"]),
    ),
    Case(
        "GPUBudget",
        "start and end are the same: give hours that last",
        _quiet(start="18:00", end="08:00", days=["Monday", "Friday"]),
        _quiet(start="08:00", end="08:00"),
    ),
    Case(
        "GPUBudget",
        "the percents of shares add up to more than 100: make some smaller",
        _shares(60, 40),
        _shares(60, 41),
    ),
    Case(
        "GPUBudget",
        "key must be the key of a label, such as example.com/project",
        _shares(5, label={"key": "example.com/project", "value": "thesis"}),
        _shares(5, label={"key": "no key", "value": "thesis"}),
    ),
    Case(
        "GPUBudget",
        "say whose jobs they are: user, namespace, label, or several, of which all have to hold",
        _shares(5),
        make("GPUBudget", shares=[{"name": "x", "percent": 5}]),
    ),
    Case(
        "GPUBudget",
        'say how much it is: percent, such as 25, or amount, such as "5000", and not both',
        _shares(5),
        _shares(5, amount="5000"),
    ),
    Case(
        "GPUBudget",
        "maxCost must be more than 0: a job that may cost nothing can never run",
        make("GPUBudget", jobDefaults={"maxCost": "0.01"}),
        make("GPUBudget", jobDefaults={"maxCost": "0"}),
    ),
    Case(
        "TrainingJob",
        "maxCost must be more than 0: a job that may cost nothing can never run",
        make("TrainingJob", maxCost="0.000001"),
        make("TrainingJob", maxCost="0.00"),
    ),
    Case(
        "TrainingJob",
        "endLow and endHigh belong together: a quote names both, or none where nobody knows when the job starts",
        make("TrainingJob", quote=_QUOTE),
        make("TrainingJob", quote={**_QUOTE, "endLow": "2026-01-31T12:00:00Z"}),
    ),
    Case(
        "TrainingJob",
        "quote is what was said before the job was submitted: it can be taken away, and neither added nor changed",
        make("TrainingJob", "quoted"),
        make("TrainingJob", "quoted", quote={**_QUOTE, "costHigh": "80"}),
        before=make("TrainingJob", "quoted", quote=_QUOTE),
    ),
    Case(
        "GPUPool",
        "metadata.name must have at most 63 characters: it becomes a label",
        make("GPUPool", "p" * 63),
        make("GPUPool", "p" * 64),
    ),
    Case(
        "GPUPool",
        _ONE_CLOUD,
        make("GPUPool"),
        {**make("GPUPool"), "spec": {"maxNodes": 6}},
    ),
    Case(
        "GPUPool",
        "the instance group of a pool cannot change: create another GPUPool for another group",
        make("GPUPool", "rule-group", maxNodes=7),
        make("GPUPool", "rule-group", fake={"endpoint": "http://127.0.0.1:1", "group": "h100"}),
        before=make("GPUPool", "rule-group"),
    ),
    Case(
        "GPUPool",
        "the capacityType of a pool cannot change: create another GPUPool for the other type",
        make("GPUPool", "rule-capacity", capacityType="Spot", maxNodes=7),
        make("GPUPool", "rule-capacity", capacityType="OnDemand"),
        before=make("GPUPool", "rule-capacity", capacityType="Spot"),
    ),
    Case(
        "GPUPool",
        "price needs exactly one of hourly and adjustment",
        make("GPUPool", price={"adjustment": "-10%"}),
        make("GPUPool", price={"adjustment": "-10%", "hourly": "19.80"}),
    ),
    Case(
        "TrainingJob",
        "metadata.name must have at most 45 characters: runs and pods add to it",
        make("TrainingJob", "j" * 45),
        make("TrainingJob", "j" * 46),
    ),
    Case(
        "TrainingJob",
        "metadata.name must begin with a letter and contain only lower-case letters, digits and '-': "
        "it becomes the name of a Service",
        make("TrainingJob", "llama-3-8b"),
        make("TrainingJob", "llama-3.8b"),
    ),
    Case(
        "TrainingJob",
        "gpus.min must not exceed gpus.max",
        make("TrainingJob", gpus={"min": 8, "max": 8}),
        make("TrainingJob", gpus={"min": 9, "max": 8}),
    ),
    Case(
        "TrainingJob",
        "gpus.preferred must lie between gpus.min and gpus.max",
        make("TrainingJob", gpus={"min": 2, "preferred": 8, "max": 8}),
        make("TrainingJob", gpus={"min": 2, "preferred": 1, "max": 8}),
    ),
    Case(
        "TrainingJob",
        "say how many GPUs: set spec.gpus, or nvidia.com/gpu or the like in the first container's resources.limits",
        {**make("TrainingJob"), "spec": {"template": {"spec": GPU_POD_SPEC}}},
        {**make("TrainingJob"), "spec": {"template": {"spec": POD_SPEC}}},
    ),
    Case(
        "TrainingJob",
        "spec.gpus and the GPUs in the first container's resources.limits disagree: leave those out, and set "
        "spec.resource if they are not nvidia.com/gpu, since each run's pods get the GPUs that spec.gpus allows",
        make("TrainingJob", gpus={"min": 1, "max": 1}, template={"spec": GPU_POD_SPEC}),
        make("TrainingJob", gpus={"min": 1, "max": 4}, template={"spec": GPU_POD_SPEC}),
    ),
    Case(
        "TrainingJob",
        "leave nodeName out: Charterer chooses the nodes, and rents them",
        _template(nodeName=""),
        _template(nodeName="big-1"),
    ),
    Case(
        "TrainingJob",
        "leave schedulerName out: pods are placed by default-scheduler, by whose rules GPUs are counted",
        _template(schedulerName="default-scheduler"),
        _template(schedulerName="mine"),
    ),
    Case(
        "TrainingJob",
        "leave resourceClaims out: claimed devices are neither counted nor paid for; GPUs are nvidia.com/gpu and "
        "the like",
        _template(resourceClaims=[]),
        _template(resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}]),
    ),
    Case(
        "TrainingJob",
        "priorityClassName must not begin with system-: those classes are for the cluster's own pods",
        _template(priorityClassName="urgent"),
        _template(priorityClassName="system-node-critical"),
    ),
    Case(
        "TrainingJob",
        "leave GPUs out of init containers and sidecars: only the first container has GPUs",
        _template(initContainers=[{"name": "fetch", "resources": {"limits": {"cpu": 1}}}]),
        _template(initContainers=[GPU_POD_SPEC["containers"][0] | {"restartPolicy": "Always"}]),
    ),
    Case(
        "SpeedupProfile",
        "no throughput may be more than 1e+09 times as much or as little as the first one: give all curves in one unit",
        _types([{"gpus": 8, "value": 410}, {"gpus": 16, "value": 4e11}], 5e-7),
        _types([{"gpus": 8, "value": 410}], 1e-7),
    ),
    Case(
        "SpeedupProfile",
        "a curve needs exactly one of throughput, amdahl and power",
        _curve(power={"exponent": 0.8, "value": 55}),
        _curve(power={"exponent": 0.8, "value": 55}, amdahl={"parallelFraction": 0.9, "value": 55}),
    ),
    Case(
        "SpeedupProfile",
        "batch.own must not exceed batch.largest",
        _batch(own=64, largest=64),
        _batch(own=65, largest=64),
    ),
    Case(
        "SpeedupProfile",
        "batch.smallestPerGpu must not exceed batch.largestPerGpu",
        _batch(smallestPerGpu=32),
        _batch(smallestPerGpu=33),
    ),
    Case(
        "SpeedupProfile",
        "resizeSeconds must not exceed restartSeconds",
        make("SpeedupProfile", restartSeconds=30, resizeSeconds=30),
        make("SpeedupProfile", restartSeconds=30, resizeSeconds=31),
    ),
    Case(
        "GPURental",
        "the spec of a GPURental never changes: it is what was decided and reserved",
        {**make("GPURental", "rule-spec"), "metadata": {"name": "rule-spec", "labels": {"seen": "yes"}}},
        make("GPURental", "rule-spec", reserved="1.00"),
        before=make("GPURental", "rule-spec"),
    ),
    Case(
        "GPURental",
        _ONE_CLOUD,
        make("GPURental"),
        {**make("GPURental"), "spec": {"pool": "a100", "budget": "team", "reserved": "1", "worstHourly": "1"}},
    ),
    Case(
        "GPURental",
        "a rental only moves forward",
        _rental_in("Draining"),
        _rental_in("Starting"),
        before=_rental_in("Ready"),
        status=True,
    ),
)

REFUSED: dict[str, Json] = {
    "quiet hours that no clock shows": _quiet(start="8:00", end="24:01"),
    "quiet hours on a day that no week has": _quiet(start="08:00", end="24:00", days=["Mon"]),
    "quiet hours twice on a day": _quiet(start="08:00", end="24:00", days=["Monday", "Monday"]),
    "a target without a time zone": make("TrainingJob", targetCompletionTime="2026-01-31T12:00:00"),
    "In without values": _selecting(operator="In"),
    "a pool without an upper bound": {**make("GPUPool"), "spec": {"fake": SMALLEST["GPUPool"]["fake"]}},
    "a pool of fewer than no nodes": make("GPUPool", maxNodes=-1),
    "a pool without a cloud": {**make("GPUPool"), "spec": {"maxNodes": 1}},
    "a capacity type that nothing acts on": make("GPUPool", capacityType="Reserved"),
    "an adjustment that is no percentage": make("GPUPool", price={"adjustment": "0.9"}),
    "a price that says nothing": make("GPUPool", price={}),
    "a job without a template": {**make("TrainingJob"), "spec": {"gpus": {"min": 1, "max": 1}}},
    "a template without containers": make("TrainingJob", template={"spec": {}}),
    "an empty list of containers": make("TrainingJob", template={"spec": {"containers": []}}),
    "a width of zero": make("TrainingJob", gpus={"min": 0, "max": 1}),
    "a name that begins with a digit": make("TrainingJob", "3b"),
    "an unknown resize policy": make("TrainingJob", resizePolicy="Sometimes"),
    "a batch size of zero": _batch(own=0),
    "batch sizes without a largest": make("SpeedupProfile", batch={"own": 64, "largestPerGpu": 32}),
    "a curve without a form": make("SpeedupProfile", curves=[{"gpuType": "A100"}]),
    "two curves of one GPU type": make("SpeedupProfile", curves=SMALLEST["SpeedupProfile"]["curves"] * 2),
    "two throughputs of one width": _curve(throughput=[{"gpus": 8, "value": 1}, {"gpus": 8, "value": 2}]),
    "a throughput of zero": _curve(throughput=[{"gpus": 8, "value": 0}]),
    "a throughput that is next to nothing": _curve(power={"exponent": 0.8, "value": 5e-324}),
    "an exponent that is next to nothing": _curve(power={"exponent": 5e-324, "value": 1}),
    "a mean work of zero": make("SpeedupProfile", meanWork=0),
    "a mean work that is next to nothing": make("SpeedupProfile", meanWork=1e-300),
    "arrivals that are next to nothing": make("SpeedupProfile", arrivalsPerHour=1e-300),
    "a throughput in quotes": _curve(throughput=[{"gpus": 8, "value": "410"}]),
}
"""What the schemas refuse, by what is wrong with it."""

LEFT_TO_THE_OPERATOR: dict[str, Json] = {
    "a zero budget": make("GPUBudget", amount="0"),
    "a budget that pays for nothing itself": {**make("GPUBudget", parent="x"), "spec": {"amount": "1", "parent": "y"}},
    "a paused pool": make("GPUPool", maxNodes=0),
    "a mistyped field in a pod template": make(
        "TrainingJob", template={"spec": {**POD_SPEC, "containres": [], "priority": "much"}}
    ),
    "an unknown profile": make("TrainingJob", profileName="nowhere"),
    "a curve that falls": _curve(throughput=[{"gpus": 8, "value": 410}, {"gpus": 16, "value": 200}]),
}
"""What becomes a condition, because the API server cannot see it."""
