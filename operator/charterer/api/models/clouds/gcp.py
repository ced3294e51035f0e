"""Nodes of Google Cloud: in a zonal managed instance group, or made by bulkInsert from an instance template."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field

from charterer.api.models.base import ApiModel, Rule, ruled
from charterer.clouds.gcp import GcpGroup, GcpTemplate

_Name = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$", max_length=63)]


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
    instance_group: _Name | None = None
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
    reservation: _Name | None = None
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
