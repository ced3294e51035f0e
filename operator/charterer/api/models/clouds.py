"""Where the nodes of a pool come from: a model for each cloud, and the choice of exactly one of them."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field

from charterer.api.metadata import ObjectMeta
from charterer.api.models.base import ATOMIC, ApiModel, Json, Rule, ruled
from charterer.clouds.aws import AwsFleet, AwsGroup
from charterer.clouds.azure import AzureNodePool, AzureScaleSet
from charterer.clouds.fake import FakeGroup
from charterer.clouds.gcp import GcpGroup, GcpTemplate
from charterer.clouds.karpenter import NodeClaims
from charterer.domain.node_demands import NodeTaint, TaintEffect
from charterer.domain.pool import Cloud

# Nodes of AWS: launched from a launch template by EC2 fleets, or into an Auto Scaling group.


_AwsName = Annotated[str, Field(min_length=1, max_length=255)]


class AwsLaunchTemplate(ApiModel):
    """A launch template of EC2."""

    name: Annotated[str, Field(min_length=3, max_length=128)]
    """Name of the launch template."""
    version: Annotated[str, Field(pattern=r"^([1-9][0-9]{0,8}|\$Default|\$Latest)$", max_length=9)] = "$Default"
    """Version: a number, $Default or $Latest."""


class AwsNodes(ApiModel):
    """Nodes of AWS: from a launch template, in subnets, of instance types; or in an existing Auto Scaling group."""

    model_config = ruled(
        Rule(
            "has(self.launchTemplate) != has(self.autoScalingGroup)",
            "set exactly one of launchTemplate and autoScalingGroup",
        ),
        Rule(
            "has(self.launchTemplate) == has(self.subnets) && has(self.launchTemplate) == has(self.instanceTypes)",
            "a pool with a launchTemplate needs subnets and instanceTypes; an autoScalingGroup has its own",
        ),
        Rule(
            "has(self.launchTemplate) || !(has(self.capacityReservation) || has(self.placementGroup))",
            "capacityReservation and placementGroup need a launchTemplate; a group's are in its own launch template",
        ),
    )

    region: Annotated[str, Field(pattern=r"^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}$", max_length=32)]
    """Region, such as us-east-1."""
    launch_template: AwsLaunchTemplate | None = None
    """The launch template: what the nodes boot from, their role, security groups and user data."""
    subnets: (
        Annotated[
            tuple[Annotated[str, Field(pattern=r"^subnet-[0-9a-z]{1,32}$", max_length=40)], ...],
            Field(min_length=1, max_length=16),
        ]
        | None
    ) = None
    """Ids of the subnets in which nodes may be launched; any of them that has room is used."""
    instance_types: (
        Annotated[
            tuple[Annotated[str, Field(pattern=r"^[a-z0-9-]+\.[a-z0-9-]+$", max_length=63)], ...],
            Field(min_length=1, max_length=16),
        ]
        | None
    ) = None
    """Instance types with equal GPUs, such as p5.48xlarge; any of them that is in stock is used."""
    auto_scaling_group: _AwsName | None = None
    """Name of an Auto Scaling group of size 0 that nobody else changes."""
    gpu_type: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", max_length=63)] | None = None
    """GPU type, as in the node label nvidia.com/gpu.product or amd.com/gpu.product-name.
    Absent: as Charterer knows it of the instance type."""
    capacity_reservation: Annotated[str, Field(pattern=r"^cr-[0-9a-z]{1,32}$", max_length=40)] | None = None
    """Id of the capacity reservation or Capacity Block that all nodes are launched in."""
    placement_group: _AwsName | None = None
    """Name of the placement group that all nodes are launched in."""
    assume_role: (
        Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[!-~]+$", max_length=2048)] | None
    ) = None
    """ARN of a role to act with, such as one of another account. Absent: the operator's own credentials."""
    queue: (
        Annotated[str, Field(pattern=r"^https://sqs[.-][!-~]+/[0-9]{12}/[-A-Za-z0-9_.]+$", max_length=512)] | None
    ) = None
    """URL of an SQS queue that gets the warnings before nodes are taken back."""
    abandon_after_seconds: Annotated[int, Field(ge=1800, le=31_536_000)] | None = None
    """An instance ends itself when no operator has renewed it for this many seconds. It needs a script in the instance,
    see docs/clouds/aws.md. Absent: only Charterer ends it."""

    def to_domain(self) -> AwsFleet | AwsGroup:
        """The fleet or group."""
        role, queue, gpu_type = self.assume_role or "", self.queue or "", self.gpu_type or ""
        if self.launch_template is None:
            group = self.auto_scaling_group or ""
            return AwsGroup(self.region, group, gpu_type, role, queue, self.abandon_after_seconds)
        return AwsFleet(
            region=self.region,
            launch_template=self.launch_template.name,
            version=self.launch_template.version,
            subnets=self.subnets or (),
            instance_types=self.instance_types or (),
            gpu_type=gpu_type,
            assume_role=role,
            capacity_reservation=self.capacity_reservation or "",
            placement_group=self.placement_group or "",
            queue=queue,
            abandon_seconds=self.abandon_after_seconds,
        )

    @classmethod
    def from_domain(cls, cloud: AwsFleet | AwsGroup) -> Self:
        """The spec that says the same."""
        role, queue, gpu_type = cloud.assume_role or None, cloud.queue or None, cloud.gpu_type or None
        if isinstance(cloud, AwsGroup):
            return cls(
                region=cloud.region,
                auto_scaling_group=cloud.auto_scaling_group,
                gpu_type=gpu_type,
                assume_role=role,
                queue=queue,
                abandon_after_seconds=cloud.abandon_seconds,
            )
        return cls(
            region=cloud.region,
            launch_template=AwsLaunchTemplate(name=cloud.launch_template, version=cloud.version),
            subnets=cloud.subnets,
            instance_types=cloud.instance_types,
            gpu_type=gpu_type,
            capacity_reservation=cloud.capacity_reservation or None,
            placement_group=cloud.placement_group or None,
            assume_role=role,
            queue=queue,
            abandon_after_seconds=cloud.abandon_seconds,
        )


# Nodes of Azure: VMs of a scale set, or of a node pool of AKS.


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


# Nodes of Google Cloud: in a zonal managed instance group, or made by bulkInsert from an instance template.


_GcpName = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$", max_length=63)]


class GcpNodes(ApiModel):
    """Nodes of Google Cloud: of an existing zonal managed instance group, or made from an instance template."""

    model_config = ruled(
        Rule(
            "has(self.instanceGroup) != has(self.instanceTemplate)",
            "set exactly one of instanceGroup and instanceTemplate",
        ),
        Rule(
            "has(self.instanceTemplate) || !has(self.reservation)",
            "reservation needs an instanceTemplate; a group's is in its own instance template",
        ),
    )

    project: Annotated[str, Field(pattern=r"^([a-z0-9.-]+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]$", max_length=127)]
    """Id of the project, not its number."""
    zone: Annotated[str, Field(pattern=r"^[a-z]+(-[a-z]+)+[0-9]+-[a-z]$", max_length=63)]
    """Zone, such as us-central1-a."""
    instance_group: _GcpName | None = None
    """Name of a zonal managed instance group that nobody else changes."""
    instance_template: (
        Annotated[
            str,
            Field(pattern=r"^([a-z]+(-[a-z]+)+[0-9]+/)?[a-z]([-a-z0-9]{0,61}[a-z0-9])?$", max_length=127),
        ]
        | None
    ) = None
    """Instance template from which nodes are made in no group: the name of a global one, or REGION/NAME."""
    gpu_type: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", max_length=63)] | None = None
    """GPU type, as in the node label nvidia.com/gpu.product or amd.com/gpu.product-name.
    Absent: as Charterer knows it of the machine type."""
    reservation: _GcpName | None = None
    """Name of the reservation in which all nodes are made, and nowhere else."""
    run_seconds: Annotated[int, Field(ge=600, le=604_800)] | None = None
    """Google Cloud deletes a node after this many seconds. Nodes of an instanceGroup are then asked for by resize
    requests (flex-start), which wait until there is room. Absent: a node runs until it is ended."""

    def to_domain(self) -> GcpGroup | GcpTemplate:
        """The group or template."""
        gpu_type = self.gpu_type or ""
        if self.instance_template is None:
            return GcpGroup(self.project, self.zone, self.instance_group or "", gpu_type, self.run_seconds)
        reservation = self.reservation or ""
        return GcpTemplate(self.project, self.zone, self.instance_template, gpu_type, reservation, self.run_seconds)

    @classmethod
    def from_domain(cls, cloud: GcpGroup | GcpTemplate) -> Self:
        """The spec that says the same."""
        if isinstance(cloud, GcpGroup):
            return cls(
                project=cloud.project,
                zone=cloud.zone,
                instance_group=cloud.group,
                gpu_type=cloud.gpu_type or None,
                run_seconds=cloud.run_seconds,
            )
        return cls(
            project=cloud.project,
            zone=cloud.zone,
            instance_template=cloud.template,
            gpu_type=cloud.gpu_type or None,
            reservation=cloud.reservation or None,
            run_seconds=cloud.run_seconds,
        )


# Nodes that Karpenter launches in the operator's own cluster.


_DNS_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
_LABEL_VALUE = r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"

_DnsName = Annotated[str, Field(pattern=_DNS_NAME, max_length=253)]
_LabelValue = Annotated[str, Field(pattern=_LABEL_VALUE, max_length=63)]


class NodeClassRef(ApiModel):
    """A node class of Karpenter."""

    group: _DnsName
    """API group, such as karpenter.k8s.aws."""
    kind: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=63)]
    """Kind, such as EC2NodeClass."""
    name: _DnsName
    """Name of the node class."""


class ClaimedTaint(ApiModel):
    """A taint of the nodes."""

    key: Annotated[str, Field(pattern=r"^[A-Za-z0-9][-A-Za-z0-9_./]*$", max_length=316)]
    """Key, such as nvidia.com/gpu."""
    value: Annotated[str, Field(pattern=rf"^$|{_LABEL_VALUE}", max_length=63)] = ""
    """Value."""
    effect: TaintEffect
    """NoSchedule, PreferNoSchedule or NoExecute."""


class KarpenterNodes(ApiModel):
    """Nodes that Karpenter launches, each for a NodeClaim of its own and without a NodePool."""

    model_config = ruled(
        Rule(
            "has(self.gpuType) == has(self.gpusPerNode)",
            "set both gpuType and gpusPerNode, or neither",
        )
    )

    node_class_ref: NodeClassRef
    """The node class: what the nodes boot from, and their network."""
    instance_type: _LabelValue
    """The cloud's name of the machine type."""
    zone: _LabelValue
    """The cloud's name of the zone."""
    gpu_type: _LabelValue | None = None
    """GPU type, as in the node label nvidia.com/gpu.product. Absent: as the nodes of this instance type in the cluster
    say."""
    gpus_per_node: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Number of GPUs of one node. Absent: as the nodes of this instance type in the cluster say."""
    taints: Annotated[tuple[ClaimedTaint, ...], Field(max_length=16, json_schema_extra=ATOMIC)] = ()
    """Taints of the nodes. The template of a job has to tolerate them."""
    price_metrics: Annotated[str, Field(pattern=r"^https?://[^\s]+$", max_length=512)] | None = None
    """URL of Karpenter's metrics, which have the price. Absent: `spec.price.hourly` has it."""
    billing_minimum_seconds: Annotated[int, Field(ge=0, le=86_400)] = 60
    """Minimum number of seconds that the cloud bills: 60 on AWS and Google Cloud, 0 on Azure."""
    abandon_after_seconds: Annotated[int, Field(ge=600, le=315_360_000)] | None = None
    """A node is drained and ended this many seconds after it was asked for, also while Charterer is down. Absent:
    only Charterer ends it."""

    def to_domain(self) -> NodeClaims:
        """The nodes."""
        return NodeClaims(
            class_group=self.node_class_ref.group,
            class_kind=self.node_class_ref.kind,
            class_name=self.node_class_ref.name,
            instance_type=self.instance_type,
            zone=self.zone,
            gpu_type=self.gpu_type or "",
            gpus=self.gpus_per_node or 0,
            taints=tuple([NodeTaint(taint.key, taint.value, taint.effect) for taint in self.taints]),
            price_metrics=self.price_metrics or "",
            abandon_seconds=self.abandon_after_seconds,
            billing_minimum_seconds=self.billing_minimum_seconds,
        )

    @classmethod
    def from_domain(cls, claims: NodeClaims) -> Self:
        """The field of a spec that says so."""
        return cls(
            node_class_ref=NodeClassRef(group=claims.class_group, kind=claims.class_kind, name=claims.class_name),
            instance_type=claims.instance_type,
            zone=claims.zone,
            gpu_type=claims.gpu_type or None,
            gpus_per_node=claims.gpus or None,
            taints=tuple([ClaimedTaint(key=t.key, value=t.value, effect=t.effect) for t in claims.taints]),
            price_metrics=claims.price_metrics or None,
            abandon_after_seconds=claims.abandon_seconds,
            billing_minimum_seconds=claims.billing_minimum_seconds,
        )


# Which cloud a pool's nodes come from: a field for each, of which exactly one is set.


class FakeCloudGroup(ApiModel):
    """An instance group of the fake cloud (`charterer fakecloud`)."""

    endpoint: Annotated[str, Field(pattern=r"^https?://[^\s]+$", max_length=512)]
    """Base URL of the fake cloud's API, such as http://127.0.0.1:8080."""
    group: Annotated[str, Field(min_length=1, max_length=63)]
    """Name of the instance group."""

    def to_domain(self) -> FakeGroup:
        """The group."""
        return FakeGroup(self.endpoint, self.group)


class CloudChoice(ApiModel):
    """Where the nodes come from: a field for each cloud, of which exactly one is set."""

    fake: FakeCloudGroup | None = None
    """The instance group of the fake cloud."""
    karpenter: KarpenterNodes | None = None
    """Nodes that Karpenter launches."""
    aws: AwsNodes | None = None
    """Nodes of AWS."""
    azure: AzureNodes | None = None
    """Nodes of Azure."""
    gcp: GcpNodes | None = None
    """Nodes of Google Cloud."""

    def cloud_of(self, meta: ObjectMeta) -> Cloud:
        """The cloud that is set; InvalidObject unless it is exactly one."""
        chosen = [group for name in CLOUD_FIELDS if (group := getattr(self, name)) is not None]
        match chosen:
            case [FakeCloudGroup() | KarpenterNodes() | AwsNodes() | AzureNodes() | GcpNodes() as group]:
                return group.to_domain()
            case _:
                message = f"set exactly one of {', '.join(CLOUD_FIELDS)}"
                raise meta.invalid("spec", "NoCloud", message)


CLOUD_FIELDS: Final = tuple(CloudChoice.model_fields)
"""The fields of ``GPUPool.spec`` of which exactly one is set."""


def cloud_fields(cloud: Cloud) -> Json:
    """The field of a spec that names this cloud's group."""
    match cloud:
        case FakeGroup(endpoint=endpoint, group=group):
            return {"fake": {"endpoint": endpoint, "group": group}}
        case NodeClaims():
            spec = KarpenterNodes.from_domain(cloud)
            return {"karpenter": spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)}
        case AwsFleet() | AwsGroup():
            nodes = AwsNodes.from_domain(cloud)
            return {"aws": nodes.model_dump(mode="json", by_alias=True, exclude_none=True)}
        case AzureScaleSet() | AzureNodePool():
            of_azure = AzureNodes.from_domain(cloud)
            return {"azure": of_azure.model_dump(mode="json", by_alias=True, exclude_none=True)}
        case GcpGroup() | GcpTemplate():
            made = GcpNodes.from_domain(cloud)
            return {"gcp": made.model_dump(mode="json", by_alias=True, exclude_none=True)}
        case _:
            raise TypeError(f"no spec is known for {cloud}")


def _one_cloud() -> Rule:
    has = ", ".join(f"has(self.{name})" for name in CLOUD_FIELDS)
    return Rule(
        f"[{has}].filter(cloud, cloud).size() == 1",
        f"a pool needs exactly one cloud: set exactly one of {', '.join(CLOUD_FIELDS)}",
    )


ONE_CLOUD: Final = _one_cloud()
"""Exactly one cloud is set."""


def cloud_rules() -> tuple[Rule, ...]:
    """Exactly one cloud, which never changes."""
    same = [f"!has(self.{name}) || (has(oldSelf.{name}) && self.{name} == oldSelf.{name})" for name in CLOUD_FIELDS]
    return (
        ONE_CLOUD,
        Rule(
            " && ".join(f"({rule})" for rule in same),
            "the instance group of a pool cannot change: create another GPUPool for another group",
        ),
    )
