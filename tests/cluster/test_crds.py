"""The CRDs on a real API server: they install, default, prune, show and refuse what they should."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from charterer.api.models.kinds import KINDS
from charterer.api.names import UNSEEN_GENERATION
from charterer.api.schema import crd
from tests.cluster.aws_cases import AWS_ACCEPTED, AWS_CASES, AWS_REFUSED
from tests.cluster.azure_cases import AZURE_ACCEPTED, AZURE_CASES, AZURE_REFUSED
from tests.cluster.cloud_cases import CLOUD_CASES
from tests.cluster.crd_cases import (
    CASES,
    CRDS,
    LEFT_TO_THE_OPERATOR,
    POD_SPEC,
    REFUSED,
    ROOT,
    SMALLEST,
    Case,
    Json,
    make,
)
from tests.cluster.existing_cases import EXISTING_ACCEPTED, EXISTING_CASES, EXISTING_REFUSED
from tests.cluster.gcp_cases import GCP_ACCEPTED, GCP_CASES, GCP_REFUSED
from tests.cluster.interactive_cases import INTERACTIVE_CASES, INTERACTIVE_REFUSED
from tests.cluster.money_cases import MONEY_ACCEPTED, MONEY_CASES, MONEY_REFUSED
from tests.cluster.pool_set_cases import POOL_SET_ACCEPTED, POOL_SET_CASES, POOL_SET_REFUSED
from tests.cluster.raw_objects import create, delete, replace
from tests.cluster.slice_cases import SLICE_CASES, SLICE_REFUSED
from tests.cluster.target_cases import TARGET_CASES
from tests.cluster.variant_cases import VARIANT_CASES, VARIANT_REFUSED
from tests.testbed.bed import SYSTEM
from tests.testbed.controlplane import ControlPlane, ControlPlaneError

ALL_CASES = (
    *(*CASES, *INTERACTIVE_CASES, *VARIANT_CASES, *POOL_SET_CASES, *SLICE_CASES),
    *(*CLOUD_CASES, *AWS_CASES, *AZURE_CASES, *GCP_CASES, *EXISTING_CASES, *MONEY_CASES, *TARGET_CASES),
)
ALL_REFUSED = {
    **{**REFUSED, **INTERACTIVE_REFUSED, **VARIANT_REFUSED, **POOL_SET_REFUSED, **SLICE_REFUSED},
    **{**AWS_REFUSED, **AZURE_REFUSED, **GCP_REFUSED, **EXISTING_REFUSED, **MONEY_REFUSED},
}
ACCEPTED = {
    **LEFT_TO_THE_OPERATOR,
    **MONEY_ACCEPTED,
    **POOL_SET_ACCEPTED,
    **AWS_ACCEPTED,
    **AZURE_ACCEPTED,
    **GCP_ACCEPTED,
    **EXISTING_ACCEPTED,
}


@pytest.fixture
def kept(api: ControlPlane) -> Iterator[list[Json]]:
    """Objects to delete at the end."""
    objects: list[Json] = []
    yield objects
    for raw in objects:
        delete(api, raw)


def _rules(schema: Json) -> Iterator[str]:
    yield from (rule["message"] for rule in schema.get("x-kubernetes-validations", ()))
    for child in [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]:
        yield from _rules(child)


def test_every_rule_in_the_crds_has_a_case_that_passes_and_one_that_fails() -> None:
    written = {
        (definition["spec"]["names"]["kind"], message)
        for definition in map(yaml.safe_load, (path.read_text() for path in CRDS.glob("*.yaml")))
        for message in _rules(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    }
    assert {(case.kind, case.rule) for case in ALL_CASES} == written


@pytest.fixture
def creator(case: Case, request: pytest.FixtureRequest) -> str | None:
    """The token of who creates what the case updates; None: an administrator."""
    if not case.by_operator:
        return None
    installed: ControlPlane = request.getfixturevalue("installed")
    return installed.service_account_token(SYSTEM, "charterer")


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: f"{case.kind}: {case.rule}"[:45])
def test_a_rule_accepts_what_it_should_and_refuses_the_rest_in_its_own_words(
    case: Case, api: ControlPlane, kept: list[Json], creator: str | None
) -> None:
    if case.before is None:
        create(api, case.passes, dry_run=True)
        with pytest.raises(ControlPlaneError) as refusal:
            create(api, case.fails, dry_run=True)
        assert "no such overload" not in str(refusal.value)
    else:
        create(api, case.before, token=creator)
        kept.append(case.before)
        if case.status:
            replace(api, case.before, status=True)
        replace(api, case.passes, status=case.status, dry_run=True, token=creator)
        with pytest.raises(ControlPlaneError) as refusal:
            replace(api, case.fails, status=case.status, dry_run=True, token=creator)
    assert case.rule in str(refusal.value)


@pytest.mark.parametrize("what", ALL_REFUSED)
def test_the_api_server_refuses(what: str, api: ControlPlane) -> None:
    with pytest.raises(ControlPlaneError, match=r"(is invalid|Invalid value|Duplicate value)"):
        create(api, ALL_REFUSED[what], dry_run=True, unknown_fields="Ignore")


@pytest.mark.parametrize("what", ACCEPTED)
def test_the_api_server_leaves_to_the_operator(what: str, api: ControlPlane) -> None:
    create(api, ACCEPTED[what], dry_run=True)


DEFAULTS: dict[str, Json] = {
    "GPUBudget": {
        "currency": "USD",
        "period": "Month",
        "timeZone": "Etc/UTC",
        "mode": "Enforce",
        "carryOverPercent": 0,
        "loans": "Never",
        "explorationPercent": 2,
    },
    "GPUPool": {
        "capacityType": "OnDemand",
        "resource": "nvidia.com/gpu",
        "startSeconds": 120,
        "cooldownSeconds": 60,
        "learnWaits": True,
    },
    "GPUPoolSet": {},
    "TrainingJob": {
        "resizePolicy": "Never",
        "spotPolicy": "Never",
        "suspend": False,
        "backoffLimit": 3,
        "maxRestarts": 100,
        "readyTimeoutSeconds": 600,
    },
    "SpeedupProfile": {},
    "GPURental": {"capacityType": "OnDemand"},
}


@pytest.mark.parametrize("kind", SMALLEST)
def test_the_smallest_object_is_filled_with_the_documented_defaults_and_no_others(kind: str, api: ControlPlane) -> None:
    created = create(api, make(kind), dry_run=True)
    assert created["spec"] == {**SMALLEST[kind], **DEFAULTS[kind]}
    unseen = {} if kind == "GPURental" else {"observedGeneration": UNSEEN_GENERATION}
    assert created.get("status", {}) == unseen


def test_unknown_fields_are_pruned_except_inside_the_pod_template(api: ControlPlane) -> None:
    template = {"spec": {**POD_SPEC, "hostNetwork": True}, "metadata": {"labels": {"team": "research"}}}
    job = make("TrainingJob", template=template, nonsense=1)
    created = create(api, job, dry_run=True, unknown_fields="Ignore")
    assert "nonsense" not in created["spec"]
    assert created["spec"]["template"] == template


def test_a_mistyped_field_is_refused_by_kubectl_with_its_name(api: ControlPlane) -> None:
    flags = ("--dry-run=server", "--validate=strict")
    with pytest.raises(ControlPlaneError, match="hardLimmit"):
        api.kubectl("create", "-f", "-", *flags, input=json.dumps(make("GPUBudget", hardLimmit="1")))


STATUS: dict[str, Json] = {
    "GPUBudget": {
        "spent": "1204.11",
        "committed": "1300.00",
        "forecast": "59800.00",
        "paysPerHourSaved": "18.40",
        "state": "Ready",
    },
    "GPUPool": {
        "offering": {
            "gpuType": "NVIDIA-A100-SXM4-40GB",
            "gpusPerNode": 8,
            "instanceType": "p4d.24xlarge",
            "zone": "use1-az1",
        },
        "quote": {
            "hourly": "19.80",
            "worstHourly": "32.77",
            "billingMinimumSeconds": 60,
            "source": "fake",
            "asOf": "2026-01-31T12:00:00.000000Z",
        },
        "nodes": 3,
        "mostNodes": 4,
        "state": "Ready",
    },
    "GPUPoolSet": {"pools": 18, "readyPools": 17, "nodes": 3, "state": "Ready"},
    "TrainingJob": {
        "state": "Running",
        "gpus": 8,
        "wantGpus": 16,
        "pool": "a100",
        "progressPercent": 41,
        "eta": "2026-01-31T14:05:00Z",
        "cost": "57.12",
        "why": "BudgetOptimal",
    },
    "SpeedupProfile": {
        "state": "Ready",
        "learned": {"reports": 312, "batch": {"own": 64, "largest": 64, "largestPerGpu": 64, "smallestPerGpu": 1}},
    },
    "GPURental": {
        "phase": "Ended",
        "node": "node-1",
        "cost": "3.30",
        "segments": [
            {"since": "2026-01-31T12:00:00.000000Z", "hourly": "9.00"},
            {"since": "2026-01-31T13:00:00.000000Z", "hourly": "12.00"},
        ],
    },
}
SHOWN: dict[str, dict[str, str]] = {
    "GPUBudget": {
        "MODE": "Enforce",
        "AMOUNT": "60000",
        "SPENT($)": "1204.11",
        "COMMITTED($)": "1300.00",
        "FORECAST($)": "59800.00",
        "PAYS/H-SAVED": "18.40",
        "STATE": "Ready",
    },
    "GPUPool": {
        "TYPE": "NVIDIA-A100-SXM4-40GB",
        "GPUS/NODE": "8",
        "NODES": "3",
        "MAX": "4",
        "PRICE($/H)": "19.80",
        "STATE": "Ready",
    },
    "GPUPoolSet": {"POOLS": "18", "READY": "17", "NODES": "3", "STATE": "Ready"},
    "TrainingJob": {
        "STATE": "Running",
        "GPUS": "8",
        "WANT": "16",
        "POOL": "a100",
        "PROGRESS%": "41",
        "ETA": "2026-01-31T14:05:00Z",
        "COST($)": "57.12",
        "WHY": "BudgetOptimal",
    },
    "SpeedupProfile": {"GPU-TYPES": "A100", "RESTART(S)": "", "REPORTS": "312", "STATE": "Ready"},
    "GPURental": {
        "POOL": "a100",
        "BUDGET": "team",
        "PHASE": "Ended",
        "NODE": "node-1",
        "PRICE($/H)": "12.00",
        "COST($)": "3.30",
    },
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_kubectl_get_by_short_name_shows_the_columns(kind: Any, api: ControlPlane, kept: list[Json]) -> None:
    name = f"shown-{kind.short}"
    shown = make(kind.kind, name)
    create(api, shown)
    kept.append(shown)
    replace(api, {**shown, "status": STATUS[kind.kind]}, status=True)
    header, row = api.kubectl("get", kind.short, name).splitlines()
    starts = [header.index(title) for title in header.split()]
    cells = [row[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
    columns = dict(zip(header.split(), cells, strict=True))
    assert {title: columns[title] for title in SHOWN[kind.kind]} == SHOWN[kind.kind]
    assert list(columns)[-1] == "AGE"


def test_kubectl_get_charterer_lists_all_kinds(api: ControlPlane) -> None:
    listed = api.kubectl("api-resources", "--categories=charterer", "--no-headers", "-o", "name").split()
    assert sorted(listed) == sorted(kind.crd_name for kind in KINDS)


def _paths(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    if schema.get("type") == "array":
        yield from _paths(schema["items"], path)
    for name, child in schema.get("properties", {}).items():
        yield f"{path}.{name}", child
        if not child.get("x-kubernetes-preserve-unknown-fields"):
            yield from _paths(child, f"{path}.{name}")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_every_field_is_described(kind: Any) -> None:
    root = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    parts = [(part, root["properties"][part]) for part in ("spec", "status")]
    fields = [*parts, *(field for part, schema in parts for field in _paths(schema, part))]
    assert [path for path, schema in fields if not schema.get("description")] == []


def test_kubectl_explain_teaches_a_field(api: ControlPlane) -> None:
    assert "Maximum number of nodes" in api.kubectl("explain", "gpool.spec.maxNodes")


def test_two_field_managers_write_their_parts_of_a_status(api: ControlPlane, kept: list[Json]) -> None:
    job = make("TrainingJob", "two-managers")
    created = create(api, job)
    kept.append(job)
    for manager, status in (
        ("charterer", {"lastRun": 2}),
        ("charterer-status", {"state": "Queued"}),
        ("charterer", {}),
    ):
        part = {key: value for key, value in job.items() if key != "spec"} | {"status": status}
        flags = ("--server-side", f"--field-manager={manager}", "--subresource=status")
        api.kubectl("apply", "-f", "-", *flags, input=json.dumps(part))
    left = json.loads(api.kubectl("get", "tj", "two-managers", "-o", "json"))
    assert left["metadata"]["generation"] == created["metadata"]["generation"]
    assert left["status"] == {"state": "Queued", "observedGeneration": UNSEEN_GENERATION}
    for state, found in (("Queued", "trainingjob.charterer.dev/two-managers"), ("Running", "")):
        selected = api.kubectl(
            "get", "tj", "-o", "name", f"--field-selector=metadata.name=two-managers,status.state={state}"
        )
        assert selected.strip() == found


def test_helm_renders_the_same_definitions_and_keeps_them_when_it_is_uninstalled(control_plane: ControlPlane) -> None:
    rendered = control_plane.helm("template", "crds", str(ROOT / "charts/charterer-crds"))
    definitions = [document for document in yaml.safe_load_all(rendered) if document]
    assert sorted(definitions, key=str) == sorted((crd(kind) for kind in KINDS), key=str)
    assert all(crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for crd in definitions)
