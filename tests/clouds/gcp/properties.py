"""What an instance's properties say: its provisioning model, its reservation, its GPUs and the quotas they use."""

from __future__ import annotations

from tests.clouds.gcp.catalogue import METRICS, TYPES
from tests.clouds.gcp.protocol import Message


def last(link: str) -> str:
    """The name at the end of a link."""
    return link.rsplit("/", 1)[-1]


def model_of(properties: Message) -> str:
    """The provisioning model; ``preemptible`` is the older word for spot."""
    if properties.scheduling.preemptible:
        return "SPOT"
    return str(properties.scheduling.provisioning_model) or "STANDARD"


def reservation_of(properties: Message) -> str:
    """The one reservation that an instance is to use, or nothing."""
    affinity = properties.reservation_affinity
    if affinity.consume_reservation_type != "SPECIFIC_RESERVATION":
        return ""
    return last(affinity.values[0])


def gpus_of(properties: Message) -> dict[str, int]:
    """GPUs by accelerator type: the machine type's own, or those attached."""
    facts = TYPES[last(properties.machine_type)]
    attached = {last(each.accelerator_type): each.accelerator_count for each in properties.guest_accelerators}
    return {facts.gpu: facts.gpus} if facts.gpus else attached


def metrics_of(properties: Message) -> dict[str, int]:
    """What an instance uses of each quota.

    Spot and flex-start use the preemptible quota of their GPU (https://cloud.google.com/compute/resource-usage,
    "GPU VMs and preemptible allocation quotas"). Whether they count in GPUS_ALL_REGIONS is unproven; here they do.
    """
    prefix = "PREEMPTIBLE_" if model_of(properties) in ("SPOT", "FLEX_START") else ""
    found = {prefix + METRICS[kind]: count for kind, count in gpus_of(properties).items()}
    return found | ({"GPUS_ALL_REGIONS": sum(found.values())} if found else {})
