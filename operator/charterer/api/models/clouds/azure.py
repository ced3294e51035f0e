"""Nodes of Azure: VMs of a scale set, or of a node pool of AKS."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field

from charterer.api.models.base import ApiModel, Rule, ruled
from charterer.clouds.azure import AzureNodePool, AzureScaleSet

_UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


class AksNodePool(ApiModel):
    """A node pool of an AKS cluster."""

    cluster: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_]*[A-Za-z0-9])?$", max_length=63)]
    """Name of the cluster."""
    node_pool: Annotated[str, Field(pattern=r"^[a-z][a-z0-9]{0,11}$", max_length=12)]
    """Name of the node pool."""


class AzureNodes(ApiModel):
    """Nodes of Azure: VMs of a scale set, or of a node pool of AKS. Nobody else may change how many there are."""

    model_config = ruled(
        Rule("has(self.scaleSet) != has(self.aks)", "set exactly one of scaleSet and aks"),
    )

    subscription: Annotated[str, Field(pattern=_UUID, max_length=36)]
    """Id of the subscription."""
    resource_group: Annotated[str, Field(pattern=r"^[-A-Za-z0-9_.()]*[-A-Za-z0-9_()]$", max_length=90)]
    """Resource group of the scale set, or of the AKS cluster (not the group of its nodes)."""
    location: Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*$", max_length=40)]
    """Location, such as westeurope: of its prices and quotas."""
    scale_set: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9_])?$", max_length=64)] | None = (
        None
    )
    """Name of a scale set of capacity 0, in Uniform or Flexible orchestration."""
    aks: AksNodePool | None = None
    """The node pool, where the scale set belongs to AKS."""
    gpu_type: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", max_length=63)] | None = None
    """GPU type, as in the node label nvidia.com/gpu.product or amd.com/gpu.product-name.
    Absent: as Charterer knows it of the VM size."""
    tenant_id: Annotated[str, Field(pattern=_UUID, max_length=36)] | None = None
    """Id of the tenant of the identity. Absent: that of the environment."""
    client_id: Annotated[str, Field(pattern=_UUID, max_length=36)] | None = None
    """Client id of the identity to act with. Absent: the operator's own."""

    def to_domain(self) -> AzureScaleSet | AzureNodePool:
        """The scale set or node pool."""
        place = self.subscription, self.resource_group, self.location
        rest = self.gpu_type or "", self.tenant_id or "", self.client_id or ""
        if self.aks is None:
            return AzureScaleSet(*place, self.scale_set or "", *rest)
        return AzureNodePool(*place, self.aks.cluster, self.aks.node_pool, *rest)

    @classmethod
    def from_domain(cls, cloud: AzureScaleSet | AzureNodePool) -> Self:
        """The spec that says the same."""
        aks = None
        if isinstance(cloud, AzureNodePool):
            aks = AksNodePool(cluster=cloud.cluster, node_pool=cloud.node_pool)
        return cls(
            subscription=cloud.subscription,
            resource_group=cloud.resource_group,
            location=cloud.location,
            scale_set=cloud.scale_set if isinstance(cloud, AzureScaleSet) else None,
            aks=aks,
            gpu_type=cloud.gpu_type or None,
            tenant_id=cloud.tenant or None,
            client_id=cloud.client or None,
        )
