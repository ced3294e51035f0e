"""The API server refuses everything for a while, with 429 and with 500: nothing is lost, and nobody is besieged."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from charterer.cluster.client import Client
from tests.testbed.bed import SYSTEM, Bed

FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
NAME = "storm"
SECONDS = 8.0
"""Length of a storm: several times the first pauses of everything that retries."""
MOST_A_SECOND = 15.0
"""Requests a second that the operator may send into a storm, for two jobs and two machines."""

PRIORITY_LEVEL: Mapping[str, Any] = {
    "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
    "kind": "PriorityLevelConfiguration",
    "metadata": {"name": NAME},
    "spec": {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": 0,
            "lendablePercent": 0,
            "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        },
    },
}
"""Nothing is let through: 429 with Retry-After."""
FLOW_SCHEMA: Mapping[str, Any] = {
    "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
    "kind": "FlowSchema",
    "metadata": {"name": NAME},
    "spec": {
        "matchingPrecedence": 10,
        "priorityLevelConfiguration": {"name": NAME},
        "rules": [
            {
                "subjects": [
                    {"kind": "ServiceAccount", "serviceAccount": {"name": "charterer", "namespace": SYSTEM}},
                ],
                "resourceRules": [
                    {
                        "verbs": ["*"],
                        "apiGroups": ["", "batch", "charterer.dev", "events.k8s.io"],
                        "resources": ["*"],
                        "clusterScope": True,
                        "namespaces": ["*"],
                    }
                ],
            }
        ],
    },
}
"""All that the operator asks, but its Lease."""
BROKEN_WEBHOOK: Mapping[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": NAME},
    "webhooks": [
        {
            "name": "storm.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 1,
            "clientConfig": {"url": "https://127.0.0.1:1/away"},
            "rules": [
                {
                    "operations": ["CREATE", "UPDATE"],
                    "apiGroups": ["charterer.dev", "batch"],
                    "apiVersions": ["*"],
                    "resources": ["*/*"],
                    "scope": "*",
                }
            ],
        }
    ],
}
"""Every write of ours and of runs fails with 500."""


async def test_storms_of_429_and_of_500_lose_nothing_and_are_not_answered_by_one(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    for name in ("ends", "ends-later", "stays"):
        await bed.job(name)
    await bed.running("ends", "ends-later", "stays")

    await bed.kube.post(f"{FLOWS}/prioritylevelconfigurations", PRIORITY_LEVEL)
    await bed.kube.post(f"{FLOWS}/flowschemas", FLOW_SCHEMA)
    try:
        await bed.finish("ends")
        began = await _begun(bed.kube, _throttled)
        await asyncio.sleep(SECONDS)
        sent = await _throttled(bed.kube) - began
    finally:
        await bed.kube.delete(f"{FLOWS}/flowschemas/{NAME}")
        await bed.kube.delete(f"{FLOWS}/prioritylevelconfigurations/{NAME}")
    assert bed.state("ends") == "Running"
    assert sent <= MOST_A_SECOND * SECONDS, f"{sent} requests into {SECONDS} s of 429"
    await bed.until(lambda: bed.state("ends") == "Complete" and len(bed.rentals()) == 2)

    await bed.kube.post(WEBHOOKS, BROKEN_WEBHOOK)
    try:
        await bed.finish("ends-later")
        began = await _begun(bed.kube, _failed)
        await asyncio.sleep(SECONDS)
        sent = await _failed(bed.kube) - began
    finally:
        await bed.kube.delete(f"{WEBHOOKS}/{NAME}")
    assert bed.state("ends-later") == "Running"
    assert sent <= MOST_A_SECOND * SECONDS, f"{sent} requests into {SECONDS} s of 500"
    await bed.until(lambda: bed.state("ends-later") == "Complete" and len(bed.rentals()) == 1)

    assert bed.state("stays") == "Running"
    assert bed.run("stays") == 1
    assert await bed.launched() == 3


async def _begun(kube: Client, count: Callable[[Client], Awaitable[float]]) -> float:
    """Wait until the storm is felt; the number of requests that it has met then."""
    before = met = await count(kube)
    for _ in range(300):
        if met > before:
            break
        await asyncio.sleep(0.1)
        met = await count(kube)
    assert met > before, "no request has met the storm"
    return met


async def _throttled(kube: Client) -> float:
    return await _total(kube, rf'apiserver_flowcontrol_rejected_requests_total{{.*flow_schema="{NAME}".*}} (\S+)')


async def _failed(kube: Client) -> float:
    return await _total(kube, r'apiserver_request_total{.*code="500".*} (\S+)')


async def _total(kube: Client, pattern: str) -> float:
    text = "\n".join([line async for line in kube.lines("/metrics", query={})])
    return sum(float(value) for value in re.findall(pattern, text))
