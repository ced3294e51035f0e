"""The source of a pool's nodes: a model for each cloud, and the choice of exactly one of them."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field

from charterer.api.metadata import ObjectMeta
from charterer.api.models.base import (
    ATOMIC,
    Absent,
    ApiModel,
    Json,
    Mirror,
    Named,
    ObjectName,
    PartOf,
    Rule,
    SomeLabels,
    joined,
    ruled,
)
from charterer.clouds.aws import AwsFleet, AwsGroup
from charterer.clouds.azure import AzureNodePool, AzureScaleSet
from charterer.clouds.existing import ExistingNodes
from charterer.clouds.fake import FakeGroup
from charterer.clouds.gcp import GcpGroup, GcpTemplate
from charterer.clouds.karpenter import NodeClaims
from charterer.domain.ids import BudgetId
from charterer.domain.node_demands import NodeTaint, TaintEffect
from charterer.domain.pool import Cloud

_GpuType = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", max_length=63)]


# Nodes of AWS: launched from a launch template by EC2 fleets, or into an Auto Scaling group.


_AwsName = Annotated[str, Field(min_length=1, max_length=255)]


class AwsLaunchTemplate(ApiModel):
    """A launch template of EC2."""

    name: Annotated[str, Field(min_length=3, max_length=128)]
    """Name of the launch template."""
    version: Annotated[str, Field(pattern=r"^([1-9][0-9]{0,8}|\$Default|\$Latest)$", max_length=9)] = "$Default"
    """Version: a number, $Default or $Latest."""


class AwsNodes(PartOf[AwsFleet | AwsGroup]):
    """Nodes of AWS: from a launch template, in subnets, of instance types; or in an existing Auto Scaling group."""

    APART = frozenset(("launch_template", "version"))

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
    """The launch template, with the nodes' boot image, role, security groups and user data."""
    subnets: Annotated[
        Annotated[
            tuple[Annotated[str, Field(pattern=r"^subnet-[0-9a-z]{1,32}$", max_length=40)], ...],
            Field(min_length=1, max_length=16),
        ]
        | None,
        Absent(()),
    ] = None
    """Ids of the subnets in which nodes may be launched. Charterer uses any of them that has room."""
    instance_types: Annotated[
        Annotated[
            tuple[Annotated[str, Field(pattern=r"^[a-z0-9-]+\.[a-z0-9-]+$", max_length=63)], ...],
            Field(min_length=1, max_length=16),
        ]
        | None,
        Absent(()),
    ] = None
    """Instance types with equal GPUs, such as p5.48xlarge; any of them that is in stock is used."""
    auto_scaling_group: Annotated[_AwsName | None, Absent("")] = None
    """Name of an Auto Scaling group of size 0 that nobody else changes."""
    gpu_type: Annotated[_GpuType | None, Absent("")] = None
    """GPU type, as in the node label nvidia.com/gpu.product or amd.com/gpu.product-name. Absent: Charterer derives it
    from the instance type."""
    capacity_reservation: Annotated[
        Annotated[str, Field(pattern=r"^cr-[0-9a-z]{1,32}$", max_length=40)] | None, Absent("")
    ] = None
    """Id of the capacity reservation or Capacity Block that all nodes are launched in."""
    placement_group: Annotated[_AwsName | None, Absent("")] = None
    """Name of the placement group that all nodes are launched in."""
    assume_role: Annotated[
        Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[!-~]+$", max_length=2048)] | None,
        Absent(""),
    ] = None
    """ARN of a role to act with, such as one of another account. Absent: the operator's own credentials."""
    queue: Annotated[
        Annotated[str, Field(pattern=r"^https://sqs[.-][!-~]+/[0-9]{12}/[-A-Za-z0-9_.]+$", max_length=512)] | None,
        Absent(""),
    ] = None
    """URL of an SQS queue that gets the warnings before nodes are taken back."""
    abandon_after_seconds: Annotated[Annotated[int, Field(ge=1800, le=31_536_000)] | None, Named("abandon_seconds")] = (
        None
    )
    """An instance ends itself when no operator has renewed it for this many seconds. This needs a script in the
    instance, see docs/clouds/aws.md. Absent: only Charterer ends it."""

    def to_domain(self) -> AwsFleet | AwsGroup:
        """The fleet or group."""
        if self.launch_template is None:
            return joined(AwsGroup, self)
        template = self.launch_template
        return joined(AwsFleet, self, launch_template=template.name, version=template.version)

    @classmethod
    def from_domain(cls, cloud: AwsFleet | AwsGroup) -> Self:
        """The spec of this fleet or group."""
        if isinstance(cloud, AwsGroup):
            return cls.copy_of(cloud)
        template = AwsLaunchTemplate(name=cloud.launch_template, version=cloud.version)
        return cls.copy_of(cloud, launch_template=template)


# Nodes of Azure: VMs of a scale set, or of a node pool of AKS.


_UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


class AksNodePool(ApiModel):
    """A node pool of an AKS cluster."""

    cluster: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_]*[A-Za-z0-9])?$", max_length=63)]
    """Name of the cluster."""
    node_pool: Annotated[str, Field(pattern=r"^[a-z][a-z0-9]{0,11}$", max_length=12)]
    """Name of the node pool."""


class AzureNodes(PartOf[AzureScaleSet | AzureNodePool]):
    """Nodes of Azure: VMs of a scale set, or of a node pool of AKS. Nobody else may change how many there are."""

    APART = frozenset(("aks", "cluster", "node_pool"))

    model_config = ruled(
        Rule("has(self.scaleSet) != has(self.aks)", "set exactly one of scaleSet and aks"),
    )

    subscription: Annotated[str, Field(pattern=_UUID, max_length=36)]
    """Id of the subscription."""
    resource_group: Annotated[str, Field(pattern=r"^[-A-Za-z0-9_.()]*[-A-Za-z0-9_()]$", max_length=90)]
    """Resource group of the scale set, or of the AKS cluster (not the group of its nodes)."""
    location: Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*$", max_length=40)]
    """Location, such as westeurope, whose prices and quotas count."""
    scale_set: Annotated[
        Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9_])?$", max_length=64)] | None, Absent("")
    ] = None
    """Name of a scale set of capacity 0, in Uniform or Flexible orchestration."""
    aks: AksNodePool | None = None
    """The node pool, if the scale set belongs to AKS."""
    gpu_type: Annotated[_GpuType | None, Absent("")] = None
    """GPU type, as in the node label nvidia.com/gpu.product or amd.com/gpu.product-name. Absent: Charterer derives it
    from the VM size."""
    tenant_id: Annotated[Annotated[str, Field(pattern=_UUID, max_length=36)] | None, Named("tenant"), Absent("")] = None
    """Id of the tenant of the identity. Absent: that of the environment."""
    client_id: Annotated[Annotated[str, Field(pattern=_UUID, max_length=36)] | None, Named("client"), Absent("")] = None
    """Client id of the identity to act with. Absent: the operator's own."""

    def to_domain(self) -> AzureScaleSet | AzureNodePool:
        """The scale set or node pool."""
        if self.aks is None:
            return joined(AzureScaleSet, self)
        return joined(AzureNodePool, self, cluster=self.aks.cluster, node_pool=self.aks.node_pool)

    @classmethod
    def from_domain(cls, cloud: AzureScaleSet | AzureNodePool) -> Self:
        """The spec of this scale set or node pool."""
        if isinstance(cloud, AzureScaleSet):
            return cls.copy_of(cloud)
        return cls.copy_of(cloud, aks=AksNodePool(cluster=cloud.cluster, node_pool=cloud.node_pool))


# Nodes of Google Cloud: in a zonal managed instance group, or made by bulkInsert from an instance template.


_GcpName = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$", max_length=63)]


class GcpNodes(PartOf[GcpGroup | GcpTemplate]):
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
    instance_group: Annotated[_GcpName | None, Named("group"), Absent("")] = None
    """Name of a zonal managed instance group that nobody else changes."""
    instance_template: Annotated[
        Annotated[
            str,
            Field(pattern=r"^([a-z]+(-[a-z]+)+[0-9]+/)?[a-z]([-a-z0-9]{0,61}[a-z0-9])?$", max_length=127),
        ]
        | None,
        Named("template"),
        Absent(""),
    ] = None
    """Instance template for nodes outside any group: the name of a global template, or REGION/NAME."""
    gpu_type: Annotated[_GpuType | None, Absent("")] = None
    """GPU type, as in the node label nvidia.com/gpu.product or amd.com/gpu.product-name. Absent: Charterer derives it
    from the machine type."""
    reservation: Annotated[_GcpName | None, Absent("")] = None
    """Name of the reservation in which all nodes are made. No node is made elsewhere."""
    run_seconds: Annotated[int, Field(ge=600, le=604_800)] | None = None
    """Google Cloud deletes a node after this many seconds. Charterer then requests nodes of an instanceGroup by resize
    requests (flex-start), which wait until there is room. Absent: a node runs until it is ended."""

    def to_domain(self) -> GcpGroup | GcpTemplate:
        """The group or template."""
        return joined(GcpGroup, self) if self.instance_template is None else joined(GcpTemplate, self)

    @classmethod
    def from_domain(cls, cloud: GcpGroup | GcpTemplate) -> Self:
        """The spec of this group or template."""
        return cls.copy_of(cloud)


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


class ClaimedTaint(Mirror[NodeTaint]):
    """A taint of the nodes."""

    key: Annotated[str, Field(pattern=r"^[A-Za-z0-9][-A-Za-z0-9_./]*$", max_length=316)]
    """Key, such as nvidia.com/gpu."""
    value: Annotated[str, Field(pattern=rf"^$|{_LABEL_VALUE}", max_length=63)] = ""
    """Value."""
    effect: TaintEffect
    """NoSchedule, PreferNoSchedule or NoExecute."""


class KarpenterNodes(Mirror[NodeClaims]):
    """Nodes that Karpenter launches, each for a NodeClaim of its own and without a NodePool."""

    APART = frozenset(("node_class_ref", "class_group", "class_kind", "class_name"))

    model_config = ruled(
        Rule(
            "has(self.gpuType) == has(self.gpusPerNode)",
            "set both gpuType and gpusPerNode, or neither",
        )
    )

    node_class_ref: NodeClassRef
    """The node class, with the nodes' boot image and network."""
    instance_type: _LabelValue
    """The cloud's name of the machine type."""
    zone: _LabelValue
    """The cloud's name of the zone."""
    gpu_type: Annotated[_LabelValue | None, Absent("")] = None
    """GPU type, as in the node label nvidia.com/gpu.product. Absent: as on the nodes of this instance type in the
    cluster."""
    gpus_per_node: Annotated[Annotated[int, Field(ge=1, le=1024)] | None, Named("gpus"), Absent(0)] = None
    """Number of GPUs of one node. Absent: as on the nodes of this instance type in the cluster."""
    taints: Annotated[tuple[ClaimedTaint, ...], Field(max_length=16, json_schema_extra=ATOMIC)] = ()
    """Taints of the nodes. The template of a job must tolerate these taints."""
    price_metrics: Annotated[Annotated[str, Field(pattern=r"^https?://[^\s]+$", max_length=512)] | None, Absent("")] = (
        None
    )
    """URL of Karpenter's metrics, which have the price. Absent: `spec.price.hourly` has it."""
    billing_minimum_seconds: Annotated[int, Field(ge=0, le=86_400)] = 60
    """Minimum number of seconds that the cloud bills: 60 on AWS and Google Cloud, 0 on Azure."""
    abandon_after_seconds: Annotated[Annotated[int, Field(ge=600, le=315_360_000)] | None, Named("abandon_seconds")] = (
        None
    )
    """A node is drained and ended this many seconds after its request, even while Charterer is down. Absent: only
    Charterer ends it."""

    def to_domain(self) -> NodeClaims:
        """The nodes as a domain value."""
        of = self.node_class_ref
        return joined(NodeClaims, self, class_group=of.group, class_kind=of.kind, class_name=of.name)

    @classmethod
    def from_domain(cls, claims: NodeClaims) -> Self:
        """The spec of these nodes."""
        of = NodeClassRef(group=claims.class_group, kind=claims.class_kind, name=claims.class_name)
        return cls.copy_of(claims, node_class_ref=of)


# Nodes that exist in the cluster without Charterer.


class OwnNodes(ApiModel):
    """Nodes that are in the cluster anyway, such as your own. Charterer runs jobs on them, and neither rents nor ends,
    cordons, taints or empties them."""

    model_config = ruled(
        Rule(
            "has(self.gpuType) == has(self.gpusPerNode)",
            "set both gpuType and gpusPerNode, or neither",
        )
    )

    node_selector: SomeLabels
    """Labels of the Nodes, such as {example.com/gpus: own}. A Node must have all of these labels. Labels of NVIDIA's
    feature discovery or AMD's node labeller may be among these labels."""
    budget: ObjectName
    """Name of the GPUBudget whose jobs run there. No other budget's jobs do."""
    gpu_type: _LabelValue | None = None
    """GPU type, as in the node label nvidia.com/gpu.product or amd.com/gpu.product-name. Absent: as on the Nodes. Nodes
    with other GPUs take no part."""
    gpus_per_node: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Number of GPUs of one node. Absent: as on the Nodes. Nodes with another number take no part."""

    def to_domain(self) -> ExistingNodes:
        """The nodes as a domain value."""
        selector = tuple(sorted(self.node_selector.items()))
        return ExistingNodes(selector, BudgetId(self.budget), self.gpu_type or "", self.gpus_per_node or 0)

    @classmethod
    def from_domain(cls, nodes: ExistingNodes) -> Self:
        """The spec of these nodes."""
        declared = {"gpu_type": nodes.gpu_type, "gpus_per_node": nodes.gpus} if nodes.gpus else {}
        return cls(node_selector=dict(nodes.selector), budget=nodes.budget, **declared)


# The cloud of a pool's nodes: one field for each cloud, exactly one of which is set.


class FakeCloudGroup(Mirror[FakeGroup]):
    """An instance group of the fake cloud (`charterer fakecloud`)."""

    endpoint: Annotated[str, Field(pattern=r"^https?://[^\s]+$", max_length=512)]
    """Base URL of the fake cloud's API, such as http://127.0.0.1:8080."""
    group: Annotated[str, Field(min_length=1, max_length=63)]
    """Name of the instance group."""


class CloudChoice(ApiModel):
    """The source of the nodes: one field for each cloud, exactly one of which is set."""

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
    existing: OwnNodes | None = None
    """Nodes that are in the cluster anyway, such as your own."""

    def cloud_of(self, meta: ObjectMeta) -> Cloud:
        """The cloud that is set. Raises InvalidObject unless it is exactly one."""
        chosen = [group for name in CLOUD_FIELDS if (group := getattr(self, name)) is not None]
        match chosen:
            case [FakeCloudGroup() | KarpenterNodes() | AwsNodes() | AzureNodes() | GcpNodes() | OwnNodes() as group]:
                return group.to_domain()
            case _:
                message = f"set exactly one of {', '.join(CLOUD_FIELDS)}"
                raise meta.invalid("spec", "NoCloud", message)


CLOUD_FIELDS: Final = tuple(CloudChoice.model_fields)
"""The fields of ``GPUPool.spec``, exactly one of which is set."""


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
        case ExistingNodes():
            own = OwnNodes.from_domain(cloud)
            return {"existing": own.model_dump(mode="json", by_alias=True, exclude_none=True)}
        case _:
            raise TypeError(f"no spec is known for {cloud}")


def _one_cloud() -> Rule:
    has = ", ".join(f"has(self.{name})" for name in CLOUD_FIELDS)
    return Rule(
        f"[{has}].filter(cloud, cloud).size() == 1",
        f"a pool needs exactly one cloud: set exactly one of {', '.join(CLOUD_FIELDS)}",
    )


ONE_CLOUD: Final = _one_cloud()
"""The rule that exactly one cloud is set."""


def cloud_rules() -> tuple[Rule, ...]:
    """The rules that exactly one cloud is set and that it never changes."""
    same = [f"!has(self.{name}) || (has(oldSelf.{name}) && self.{name} == oldSelf.{name})" for name in CLOUD_FIELDS]
    return (
        ONE_CLOUD,
        Rule(
            " && ".join(f"({rule})" for rule in same),
            "the instance group of a pool cannot change: create another GPUPool for another group",
        ),
    )
