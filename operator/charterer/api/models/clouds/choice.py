"""Which cloud a pool's nodes come from: a field for each, of which exactly one is set."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from charterer.api.metadata import ObjectMeta
from charterer.api.models.base import ApiModel, Json, Rule
from charterer.api.models.clouds.aws import AwsNodes
from charterer.api.models.clouds.azure import AzureNodes
from charterer.api.models.clouds.gcp import GcpNodes
from charterer.api.models.clouds.karpenter import KarpenterNodes
from charterer.clouds.aws import AwsFleet, AwsGroup
from charterer.clouds.azure import AzureNodePool, AzureScaleSet
from charterer.clouds.fake import FakeGroup
from charterer.clouds.gcp import GcpGroup, GcpTemplate
from charterer.clouds.karpenter import NodeClaims
from charterer.domain.pool import Cloud


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
