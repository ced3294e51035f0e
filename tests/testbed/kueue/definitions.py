"""Kueue's custom resources as its API kueue.x-k8s.io/v1beta2 has them, and the hold of its webhook as policies.

Only the fields that Charterer, the stand-in or a test touches; the API server refuses or drops every other. Source of
names, keys of lists and what is required: Kueue's ``apis/kueue/v1beta2``.
"""

from __future__ import annotations

from typing import Any, Final

from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import AlreadyExists, NotFound
from charterer.cluster.paths import CUSTOM_RESOURCE_DEFINITIONS, Resource

GROUP: Final = "kueue.x-k8s.io"
API: Final = f"{GROUP}/v1beta2"
QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
ELASTIC: Final = "kueue.x-k8s.io/elastic-job"
"""The annotation that makes a job elastic, and the scheduling gate of its pods."""

WORKLOADS: Final = Resource(GROUP, "v1beta2", "workloads", namespaced=True)
LOCAL_QUEUES: Final = Resource(GROUP, "v1beta2", "localqueues", namespaced=True)
CLUSTER_QUEUES: Final = Resource(GROUP, "v1beta2", "clusterqueues", namespaced=False)
RESOURCE_FLAVORS: Final = Resource(GROUP, "v1beta2", "resourceflavors", namespaced=False)
ADMISSION_CHECKS: Final = Resource(GROUP, "v1beta2", "admissionchecks", namespaced=False)
MUTATING_POLICIES: Final = Resource("admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies", namespaced=False)
MUTATING_BINDINGS: Final = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingadmissionpolicybindings", namespaced=False
)

Schema = dict[str, Any]


def _text(**more: object) -> Schema:
    return {"type": "string", **more}


def _whole(**more: object) -> Schema:
    return {"type": "integer", "format": "int32", **more}


def _object(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def _map(of: Schema) -> Schema:
    return {"type": "object", "additionalProperties": of}


def _list(of: Schema, **more: object) -> Schema:
    return {"type": "array", "items": of, **more}


def _keyed(key: str, of: Schema, **more: object) -> Schema:
    return _list(of, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}, **more)


_TIME: Final = _text(format="date-time")
_LABELS: Final = _map(_text())
_QUANTITIES: Final = _map({"anyOf": [{"type": "integer"}, _text()], "x-kubernetes-int-or-string": True})
_CONDITIONS: Final = _keyed(
    "type",
    _object(
        ("type", "status", "reason", "message", "lastTransitionTime"),
        type=_text(maxLength=316),
        status=_text(enum=["True", "False", "Unknown"]),
        reason=_text(minLength=1, maxLength=1024),
        message=_text(maxLength=32768),
        lastTransitionTime=_TIME,
        observedGeneration={"type": "integer", "format": "int64"},
    ),
)
_TOLERATION: Final = _object(
    key=_text(),
    operator=_text(),
    value=_text(),
    effect=_text(),
    tolerationSeconds={"type": "integer", "format": "int64"},
)
_POD_SET_UPDATE: Final = _object(
    ("name",),
    name=_text(maxLength=63),
    labels=_LABELS,
    annotations=_LABELS,
    nodeSelector=_LABELS,
    tolerations=_list(
        _TOLERATION,
        **{
            "maxItems": 8,
            "x-kubernetes-list-type": "atomic",
            "x-kubernetes-validations": [
                {
                    "rule": "self.all(x, has(x.tolerationSeconds) ? x.effect == 'NoExecute' : true)",
                    "message": "effect must be 'NoExecute' when 'tolerationSeconds' is set",
                },
                {
                    "rule": "self.all(x, has(x.operator) && x.operator == 'Exists' ? !has(x.value) : true)",
                    "message": "a value must be empty when 'operator' is 'Exists'",
                },
            ],
        },
    ),
)
_CHECK_STATE: Final = _object(
    ("name", "state", "lastTransitionTime", "message"),
    name=_text(minLength=1, maxLength=316),
    state=_text(enum=["Pending", "Ready", "Retry", "Rejected"]),
    lastTransitionTime=_TIME,
    message=_text(maxLength=32768),
    requeueAfterSeconds=_whole(minimum=0),
    retryCount=_whole(minimum=0),
    podSetUpdates=_list(_POD_SET_UPDATE, **{"maxItems": 8, "x-kubernetes-list-type": "atomic"}),
)
_WORKLOAD: Final = _object(
    spec=_object(
        queueName=_text(),
        active={"type": "boolean", "default": True},
        priority=_whole(),
        podSets=_keyed(
            "name",
            _object(
                ("template", "name"),
                name=_text(default="main", maxLength=63),
                count=_whole(minimum=0, default=1),
                minCount=_whole(minimum=1),
                template={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            ),
            minItems=1,
            maxItems=8,
        ),
    ),
    status=_object(
        conditions=_CONDITIONS,
        admission=_object(
            ("clusterQueue", "podSetAssignments"),
            clusterQueue=_text(),
            podSetAssignments=_keyed(
                "name",
                _object(
                    ("name",),
                    name=_text(default="main"),
                    count=_whole(minimum=0),
                    flavors=_LABELS,
                    resourceUsage=_QUANTITIES,
                ),
                maxItems=8,
            ),
        ),
        requeueState=_object(count=_whole(minimum=0), requeueAt=_TIME),
        admissionChecks=_keyed("name", _CHECK_STATE, maxItems=8),
    ),
)
_CHECK: Final = _object(
    spec=_object(
        ("controllerName",),
        controllerName=_text(
            **{"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "field is immutable"}]}
        ),
        parameters=_object(("apiGroup", "kind", "name"), apiGroup=_text(), kind=_text(), name=_text()),
    ),
    status=_object(conditions=_CONDITIONS),
)
_CLUSTER_QUEUE: Final = _object(
    spec=_object(
        namespaceSelector={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        admissionChecksStrategy=_object(
            admissionChecks=_list(_object(("name",), name=_text(), onFlavors=_list(_text())))
        ),
        resourceGroups=_list(
            _object(
                ("coveredResources", "flavors"),
                coveredResources=_list(_text()),
                flavors=_keyed(
                    "name",
                    _object(
                        ("name", "resources"),
                        name=_text(),
                        resources=_keyed(
                            "name",
                            _object(
                                ("name", "nominalQuota"), name=_text(), nominalQuota=_QUANTITIES["additionalProperties"]
                            ),
                        ),
                    ),
                ),
            )
        ),
    ),
    status=_object(conditions=_CONDITIONS),
)
_LOCAL_QUEUE: Final = _object(spec=_object(clusterQueue=_text()), status=_object(conditions=_CONDITIONS))
_FLAVOR: Final = _object(spec=_object(nodeLabels=_LABELS, tolerations=_list(_TOLERATION)))

_KINDS: Final[tuple[tuple[Resource, str, Schema], ...]] = (
    (WORKLOADS, "Workload", _WORKLOAD),
    (ADMISSION_CHECKS, "AdmissionCheck", _CHECK),
    (CLUSTER_QUEUES, "ClusterQueue", _CLUSTER_QUEUE),
    (LOCAL_QUEUES, "LocalQueue", _LOCAL_QUEUE),
    (RESOURCE_FLAVORS, "ResourceFlavor", _FLAVOR),
)

_QUEUED: Final = f"has(object.metadata.labels) && '{QUEUE_NAME}' in object.metadata.labels"
_NO_CONTROLLER: Final = (
    "!has(object.metadata.ownerReferences) || object.metadata.ownerReferences.all(o, !has(o.controller) || "
    "!o.controller)"
)
_ELASTIC: Final = f"has(object.metadata.annotations) && object.metadata.annotations[?'{ELASTIC}'].orValue('') == 'true'"


async def install(kube: Client) -> None:
    """Returns once the kinds are served and a queued Job is held; may be repeated."""
    for resource, kind, schema in _KINDS:
        await _create(kube, CUSTOM_RESOURCE_DEFINITIONS, _definition(resource, kind, schema))
    suspend = "Object{spec: Object.spec{suspend: true}}"
    gate = (
        "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{schedulingGates: "
        f'[Object.spec.template.spec.schedulingGates{{name: "{ELASTIC}"}}]}}}}}}}}'
    )
    await _hold(kube, "kueue-suspend", _QUEUED, suspend)
    await _hold(kube, "kueue-gate", f"{_QUEUED} && {_ELASTIC}", gate)


def probe(namespace: str) -> RawObject:
    """A Job that the policies hold and gate once they act; for dry runs."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}
    metadata = {"name": "probe", "namespace": namespace, "labels": {QUEUE_NAME: "q"}, "annotations": {ELASTIC: "true"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}}}


def holds(stored: RawObject) -> bool:
    """Whether the answer to ``probe`` shows that both policies act."""
    spec = stored["spec"]
    return bool(spec.get("suspend")) and bool(spec["template"]["spec"].get("schedulingGates"))


async def _hold(kube: Client, name: str, when: str, expression: str) -> None:
    api = "admissionregistration.k8s.io/v1"
    jobs = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
    policy = {
        "reinvocationPolicy": "Never",
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [jobs]},
        "matchConditions": [
            {"name": "queued", "expression": when},
            {"name": "not-made-by-a-controller", "expression": _NO_CONTROLLER},
        ],
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
    }
    metadata = {"name": name}
    await _create(
        kube,
        MUTATING_POLICIES,
        {"apiVersion": api, "kind": "MutatingAdmissionPolicy", "metadata": metadata, "spec": policy},
    )
    binding = {"apiVersion": api, "kind": "MutatingAdmissionPolicyBinding", "metadata": metadata}
    await _create(kube, MUTATING_BINDINGS, {**binding, "spec": {"policyName": name}})


async def _create(kube: Client, resource: Resource, body: RawObject) -> None:
    try:
        await kube.post(resource.all(), body)
    except AlreadyExists:
        return


async def served(kube: Client) -> bool:
    """Whether the API server answers for all of the kinds."""
    try:
        for resource, _, _ in _KINDS:
            await kube.list(resource.all())
    except NotFound:
        return False
    return True


def _definition(resource: Resource, kind: str, schema: Schema) -> RawObject:
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    singular = kind.lower()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{resource.plural}.{GROUP}",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/kueue"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {"plural": resource.plural, "singular": singular, "kind": kind, "listKind": f"{kind}List"},
            "versions": [version],
        },
    }
