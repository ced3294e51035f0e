"""Queues of Kueue that ask Charterer's AdmissionCheck: without an operator that answers, everything in them waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from charterer.api.names import KUEUE_CHECK
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import Forbidden, NotFound
from charterer.cluster.paths import ADMISSION_CHECKS, CLUSTER_QUEUES


@dataclass(frozen=True, slots=True)
class Queues:
    """The ClusterQueues that name the check, and all AdmissionChecks by their names."""

    queues: tuple[RawObject, ...] = ()
    checks: tuple[RawObject, ...] = ()

    @property
    def names(self) -> Sequence[str]:
        """The queues' names."""
        return [str(queue["metadata"]["name"]) for queue in self.queues]

    def check(self, name: str) -> RawObject | None:
        """The AdmissionCheck of that name."""
        return next((check for check in self.checks if check["metadata"]["name"] == name), None)


NO_QUEUES: Final = Queues()


async def read_queues(client: Client) -> Queues | None:
    """None where they may not be read; no queue where Kueue is not installed."""
    try:
        listed = (await client.list(CLUSTER_QUEUES.all())).items
        checks = (await client.list(ADMISSION_CHECKS.all())).items
    except NotFound:
        return NO_QUEUES
    except Forbidden:
        return None
    return Queues(tuple([queue for queue in listed if KUEUE_CHECK in checks_of(queue)]), checks)


def checks_of(queue: RawObject) -> Sequence[str]:
    """The names of the AdmissionChecks that a ClusterQueue asks."""
    strategy = (queue.get("spec") or {}).get("admissionChecksStrategy") or {}
    return [str(check.get("name")) for check in strategy.get("admissionChecks") or ()]
