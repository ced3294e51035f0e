"""Paths of the API's resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from charterer.api.names import GROUP, VERSION


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource type and the paths of its collection and objects. ``group`` is empty for the core group."""

    group: str
    version: str
    plural: str
    namespaced: bool

    @property
    def version_path(self) -> str:
        """The discovery path of this group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def all(self, namespace: str | None = None) -> str:
        """The path of the collection in one namespace or in the whole cluster.

        Raises ValueError if ``namespace`` is given for a cluster-scoped resource.
        """
        if namespace is None:
            return f"{self.version_path}/{self.plural}"
        if not self.namespaced:
            raise ValueError(f"{self.plural} are not namespaced: leave the namespace {namespace!r} out")
        return f"{self.version_path}/namespaces/{quote(namespace, safe='')}/{self.plural}"

    def one(self, name: str, namespace: str | None = None) -> str:
        """The path of one object. Raises ValueError if a namespaced resource lacks a namespace."""
        if self.namespaced and namespace is None:
            raise ValueError(f"{self.plural} are namespaced: {name!r} needs its namespace")
        return f"{self.all(namespace)}/{quote(name, safe='')}"

    def status(self, name: str, namespace: str | None = None) -> str:
        """The path of the status subresource of one object."""
        return f"{self.one(name, namespace)}/status"

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def resource_in(path: str) -> str:
    """The resource in a path of the API, with its subresource: ``pods``, ``trainingjobs/status``."""
    steps = path.strip("/").split("/")
    rest = steps[2:] if steps[0] == "api" else steps[3:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    return "/".join([*rest[:1], *rest[2:3]])


TRAINING_JOBS: Final = Resource(GROUP, VERSION, "trainingjobs", namespaced=True)
SPEEDUP_PROFILES: Final = Resource(GROUP, VERSION, "speedupprofiles", namespaced=True)
GPU_BUDGETS: Final = Resource(GROUP, VERSION, "gpubudgets", namespaced=False)
GPU_POOLS: Final = Resource(GROUP, VERSION, "gpupools", namespaced=False)
GPU_POOL_SETS: Final = Resource(GROUP, VERSION, "gpupoolsets", namespaced=False)
GPU_RENTALS: Final = Resource(GROUP, VERSION, "gpurentals", namespaced=False)

JOBS: Final = Resource("batch", "v1", "jobs", namespaced=True)
PODS: Final = Resource("", "v1", "pods", namespaced=True)
SERVICES: Final = Resource("", "v1", "services", namespaced=True)
NODES: Final = Resource("", "v1", "nodes", namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", namespaced=False)
SECRETS: Final = Resource("", "v1", "secrets", namespaced=True)
PERSISTENT_VOLUME_CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", namespaced=True)
PERSISTENT_VOLUMES: Final = Resource("", "v1", "persistentvolumes", namespaced=False)
STORAGE_CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses", namespaced=False)
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", namespaced=True)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", namespaced=True)
RESOURCE_SLICES: Final = Resource("resource.k8s.io", "v1", "resourceslices", namespaced=False)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", namespaced=True)
EVENTS: Final = Resource("events.k8s.io", "v1", "events", namespaced=True)
TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", namespaced=False)
SELF_SUBJECT_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", namespaced=False
)
CUSTOM_RESOURCE_DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False
)
WORKLOADS: Final = Resource("kueue.x-k8s.io", "v1beta2", "workloads", namespaced=True)
ADMISSION_CHECKS: Final = Resource("kueue.x-k8s.io", "v1beta2", "admissionchecks", namespaced=False)
CLUSTER_QUEUES: Final = Resource("kueue.x-k8s.io", "v1beta2", "clusterqueues", namespaced=False)
RESOURCE_FLAVORS: Final = Resource("kueue.x-k8s.io", "v1beta2", "resourceflavors", namespaced=False)
