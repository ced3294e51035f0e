"""Asynchronous operations, pages and tags of versions, which all resource providers have alike."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from tests.clouds.azure.protocol import COMPUTE, CONTAINERS, Answer, Body, Call, Fault
from tests.clouds.azure.resources import Operation
from tests.clouds.azure.subscription import Subscription

VERSIONS = {COMPUTE: "2026-04-01", CONTAINERS: "2026-08-01"}


def written(at: datetime) -> str:
    """A time as ARM writes it."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f0+00:00")


def accepted(sub: Subscription, call: Call, operation: Operation, status: int, body: Body | None = None) -> Answer:
    """The answer that names where to ask for the operation.

    https://learn.microsoft.com/azure/azure-resource-manager/management/async-operations
    """
    path = f"/subscriptions/{sub.id}/providers/{operation.provider}/locations/{operation.location}/operations/"
    url = f"{call.server}{path}{operation.id}?api-version={VERSIONS[operation.provider]}"
    headers = {"Azure-AsyncOperation": url, "Retry-After": "10"}
    if status == 202:
        headers["Location"] = f"{url}&monitor=true"
    return Answer(body, status, headers)


def get_operation(sub: Subscription, call: Call) -> Answer:
    """The state of an operation; after a while nobody remembers it."""
    now, operation = sub.clock.now, sub.operations.get(call.args["operation_id"])
    kept = timedelta(seconds=sub.operation_kept_seconds)
    if operation is None or operation.ends + kept < now or operation.provider.lower() not in call.args["path"].lower():
        raise Fault(404, "NotFound", f"The entity was not found: operation {call.args['operation_id']}")
    status = operation.status_at(now)
    error = operation.error if status == "Failed" else None
    if call.query.get("monitor") == "true":
        if status == "InProgress":
            return Answer(None, 202, {"Location": f"{call.server}{call.args['path']}", "Retry-After": "10"})
        if error is not None:
            raise Fault(409, *error)
        return Answer(None, 204)
    body: Body = {"startTime": written(operation.began), "status": status, "name": operation.id}
    if status != "InProgress":
        body["endTime"] = written(operation.ends)
    if error is not None:
        told = {"code": error[0], "message": error[1]}
        summary = "The resource operation completed with terminal provisioning state 'Failed'."
        body["error"] = told
        if sub.wraps_errors:
            body["error"] = {"code": "ResourceOperationFailure", "message": summary, "details": [told]}
    return Answer(body, 200, {"Retry-After": "10"} if status == "InProgress" else {})


def page(sub: Subscription, call: Call, rows: Sequence[Any]) -> Answer:
    """The rows of this page, and the address of the next one."""
    begin = int(call.query.get("$skiptoken", "0"))
    body: Body = {"value": list(rows[begin : begin + sub.page])}
    if begin + sub.page < len(rows):
        query = {**call.query, "$skiptoken": str(begin + sub.page)}
        body["nextLink"] = f"{call.server}{quote(call.args['path'])}?{urlencode(query)}"
    return Answer(body)


def check_match(call: Call, etag: str) -> None:
    """Refuse a change that was meant for another version.

    https://learn.microsoft.com/azure/aks/use-etags: "*" matches any version; If-None-Match may only be "*", which
    matches nothing that exists.
    """
    wanted, unwanted = call.header("If-Match"), call.header("If-None-Match")
    if unwanted is not None and unwanted != "*":
        raise Fault(400, "InvalidParameter", "If-None-Match may only be '*'")
    if unwanted == "*" or wanted not in (None, "", "*", etag, f'"{etag}"'):
        message = f"The condition '{wanted or unwanted}' was not satisfied. The current etag is {etag}."
        raise Fault(412, "PreconditionFailed", message)
