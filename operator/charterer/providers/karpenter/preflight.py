"""Preflight: the reasons why a pool would get no nodes, found before the first dollar is spent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from charterer.clouds.karpenter import NodeClaims
from charterer.domain.ids import OrderToken, RentalId
from charterer.domain.order import Order
from charterer.domain.pool import Pool, Quote
from charterer.gpu_types.accelerators import gpus_of
from charterer.providers.errors import ProviderError
from charterer.providers.karpenter import hardware
from charterer.providers.karpenter.claims import CLAIMS, claim_for
from charterer.providers.karpenter.node_class import NodeClasses
from charterer.providers.karpenter.objects import CallFailure, Objects, ObjectsError
from charterer.providers.provider import PreflightFinding

_TRIAL: Final = Order(OrderToken("cpreflight0"), RentalId("preflight"))


async def findings(
    pool: Pool,
    cloud: NodeClaims,
    objects: Objects,
    classes: NodeClasses,
    quote: Callable[[], Awaitable[Quote]],
) -> Sequence[PreflightFinding]:
    """One finding each for Karpenter and the rights, the node class, the GPUs and the price."""
    return [
        await _gpus(cloud, objects),
        await _node_class(cloud, classes),
        await _claim(pool, cloud, objects),
        await _price(quote),
    ]


async def _gpus(cloud: NodeClaims, objects: Objects) -> PreflightFinding:
    subject = f"GPUs of instance type {cloud.instance_type}"
    try:
        found = await hardware.find(objects, cloud)
    except ObjectsError as error:
        return PreflightFinding(subject, False, str(error))
    if found is None:
        advice = "no Node says what they are: set spec.karpenter.gpuType and gpusPerNode"
        return PreflightFinding(subject, False, advice)
    text = f"{found.gpus} × {found.gpu_type}"
    if not found.seen:
        label, gpus = gpus_of(cloud.instance_type)
        if gpus not in (0, found.gpus):
            said = f"spec.karpenter says {text}, and by Charterer's table it has {gpus} × {label}: correct gpusPerNode"
            return PreflightFinding(subject, False, said)
        whose = "declared" if cloud.gpu_type and cloud.gpus else "Charterer's table says"
        return PreflightFinding(subject, True, f"{text}, as {whose}: no Node of this type has been seen yet")
    declared = (cloud.gpu_type or found.gpu_type, cloud.gpus or found.gpus)
    if declared != (found.gpu_type, found.gpus):
        said = f"{declared[1]} × {declared[0]}"
        return PreflightFinding(subject, False, f"Nodes have {text}, and spec.karpenter says {said}: correct it")
    return PreflightFinding(subject, True, f"{text}, as Nodes say")


async def _node_class(cloud: NodeClaims, classes: NodeClasses) -> PreflightFinding:
    subject = f"{cloud.class_kind} {cloud.class_name}"
    try:
        trouble = await classes.trouble(cloud)
    except ObjectsError as error:
        return PreflightFinding(subject, False, str(error))
    return PreflightFinding(subject, not trouble, trouble or "ready")


async def _claim(pool: Pool, cloud: NodeClaims, objects: Objects) -> PreflightFinding:
    """Karpenter's CRD, the operator's rights and the pool's spec, by a NodeClaim in a dry run."""
    subject = "a NodeClaim, in a dry run"
    try:
        await objects.create(CLAIMS, claim_for(pool, cloud, max(cloud.gpus, 1), _TRIAL), dry_run=True)
    except ObjectsError as error:
        advice = {
            CallFailure.ABSENT: "; install Karpenter",
            CallFailure.FORBIDDEN: "; set the chart's value karpenter.enabled",
        }.get(error.failure, "")
        return PreflightFinding(subject, False, f"{error}{advice}")
    return PreflightFinding(subject, True, "accepted")


async def _price(quote: Callable[[], Awaitable[Quote]]) -> PreflightFinding:
    try:
        found = await quote()
    except ProviderError as error:
        return PreflightFinding("price", False, error.said)
    return PreflightFinding("price", True, f"{found.price} ({found.source})")
