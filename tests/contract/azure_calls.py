"""Calls of Azure's SDKs as the tests of its server make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.core.rest import HttpRequest
from azure.mgmt.compute import models

from tests.clouds.azure.credential import Credential
from tests.clouds.azure.server import AzureServer
from tests.clouds.azure.subscription import Subscription

SIZE = "Standard_ND96asr_v4"
GROUP = "gpu-rg"


def open_client(kind: Any, server: AzureServer, token: str = "token") -> Any:
    """A client of an SDK that talks to the server and sends nothing twice."""
    address = {"base_url": server.url, "connection_verify": str(server.certificate)}
    return kind(Credential(token), server.subscription.id, **address, retry_total=0)


def code_of(call: Callable[[], Any]) -> tuple[int | None, str]:
    """Status and code with which a call is refused."""
    with pytest.raises(HttpResponseError) as caught:
        call()
    error = caught.value
    return error.status_code, (error.error and error.error.code) or ""


def scale(client: Any, capacity: int, etag: str | None = None, name: str = "gpu", group: str = GROUP) -> str:
    """Ask for so many VMs; where the operation can be asked for."""
    seen: dict[str, str] = {}
    match = {} if etag is None else {"etag": etag, "match_condition": MatchConditions.IfNotModified}
    update = models.VirtualMachineScaleSetUpdate(sku=models.Sku(capacity=capacity))
    client.virtual_machine_scale_sets.begin_update(
        group, name, update, polling=False, raw_response_hook=lambda r: seen.update(r.http_response.headers), **match
    )
    return seen["Azure-AsyncOperation"]


def delete(client: Any, *ids: str, name: str = "gpu", **options: Any) -> Any:
    """Delete VMs of a set by their ids."""
    wanted = models.VirtualMachineScaleSetVMInstanceRequiredIDs(instance_ids=list(ids))
    return client.virtual_machine_scale_sets.begin_delete_instances(GROUP, name, wanted, polling=False, **options)


def poll(client: Any, url: str) -> Any:
    """The operation as its GET tells it."""
    return client.send_request(HttpRequest("GET", url)).json()


def ids(client: Any, name: str = "gpu", group: str = GROUP) -> list[str]:
    """The instance ids of a Uniform set."""
    return [vm.instance_id for vm in client.virtual_machine_scale_set_vms.list(group, name)]


def in_flexible(client: Any, sub: Subscription, name: str = "flex") -> list[Any]:
    """The VMs of a Flexible set."""
    id = sub.path(GROUP, "virtualMachineScaleSets", name)
    return list(client.virtual_machines.list(GROUP, filter=f"'virtualMachineScaleSet/id' eq '{id}'"))
