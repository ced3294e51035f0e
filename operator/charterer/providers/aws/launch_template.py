"""Launch templates of EC2: reading a version, and what in it would keep instances from launching or ending."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from charterer.domain.pool import Pool
from charterer.providers.aws.calls import Calls
from charterer.providers.aws.permissions import Call

_READABLE: Final = re.compile(r"[0-9a-zA-Z\-_+=,.@:]{1,255}")
"""Keys of tags that an instance may read of itself; with others it is not launched (EC2's own error says this)."""


async def read_template(calls: Calls, pool: Pool, name: str, version: str) -> Mapping[str, Any]:
    """One version, with its number and its data; NotFoundInCloud when there is none."""
    answer = await calls(pool.id, Call.DESCRIBE_TEMPLATE, {"LaunchTemplateName": name, "Versions": [version]})
    [found] = answer["LaunchTemplateVersions"]
    row: Mapping[str, Any] = found
    return row


def problems_with_tags(data: Mapping[str, Any]) -> Sequence[str]:
    """Why EC2 would refuse an instance whose tags are in its metadata."""
    if not _shows_tags(data):
        return []
    specified = [each for each in data.get("TagSpecifications", ()) if each.get("ResourceType") == "instance"]
    keys = [tag["Key"] for each in specified for tag in each.get("Tags", ())]
    unfit = ", ".join(repr(key) for key in keys if not _READABLE.fullmatch(key))
    if not unfit:
        return []
    return [f"MetadataOptions.InstanceMetadataTags is enabled, so EC2 refuses the tags {unfit}: remove them"]


def problems_with_ending_itself(data: Mapping[str, Any]) -> Sequence[str]:
    """Why an instance could not learn that nobody renews it, or would not be gone after it shut itself down."""
    wrong = []
    if data.get("InstanceInitiatedShutdownBehavior") != "terminate":
        behaviour = data.get("InstanceInitiatedShutdownBehavior", "stop")
        wrong.append(f"has InstanceInitiatedShutdownBehavior {behaviour}: set it to terminate, or disks keep billing")
    if data.get("MetadataOptions", {}).get("HttpEndpoint") == "disabled":
        wrong.append("has MetadataOptions.HttpEndpoint disabled: enable it, instances read there that they are renewed")
    if not _shows_tags(data):
        wrong.append("has MetadataOptions.InstanceMetadataTags not enabled: enable it, the renewal is a tag")
    return wrong


def _shows_tags(data: Mapping[str, Any]) -> bool:
    return bool(data.get("MetadataOptions", {}).get("InstanceMetadataTags") == "enabled")
