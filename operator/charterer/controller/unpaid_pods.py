"""The owner of a pod with GPUs gets an Event if the pod is in a budget's namespace, has no TrainingJob and has no node.

No other component tells the owner that the budget pays only for TrainingJobs. A pod that may get a node without
Charterer gets no Event: a pod with another scheduler, a pod for which an autoscaler has announced a node, or a pod that
fits onto a node that Charterer has not rented.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from charterer.api import decode
from charterer.api.decode import HomelessPod
from charterer.api.manifests import EventSubject
from charterer.api.names import GPU_RESOURCES, LABEL_ADOPT, LABEL_JOB_UID
from charterer.cluster import kinds
from charterer.cluster.client import Client
from charterer.cluster.errors import ApiError
from charterer.cluster.events import Recorder
from charterer.cluster.paths import EVENTS, PODS
from charterer.cluster.store import Store
from charterer.controller.snapshot.payers import payers_of
from charterer.domain.budget import Budget, Mode
from charterer.domain.snapshot import Node
from charterer.domain.time import Instant, seconds_between
from charterer.sentences import count
from charterer.workloads import ADOPTED

_log = logging.getLogger(__name__)

NOT_A_TRAINING_JOB: Final = "NotATrainingJob"
"""The Event's reason."""
_LOOK_SECONDS: Final = 60.0
"""Seconds between two checks."""
_PATIENCE_SECONDS: Final = 60.0
"""Seconds for which a pod must have had no node. Autoscalers announce their nodes within a few seconds."""
_TOLD_AT_ONCE: Final = 20
"""Most owners that get an Event in one check. The remaining owners follow in the next check."""
_REMEMBERED: Final = 1_000
"""Most owners that are stored so that they get no second Event."""
_SERVED: Final = frozenset({"TriggeredScaleUp", "Nominated"})
"""The reasons of the Events by which the Cluster Autoscaler and Karpenter announce that they create a node for a
pod.
"""


class UnpaidPods:
    """Sends one Event to each owner, until ``run`` is cancelled. ``now``: the trusted clock.

    ``not_adopted``: kinds for which the Event does not recommend the label.
    """

    def __init__(
        self,
        client: Client,
        store: Store,
        recorder: Recorder,
        now: Callable[[], Instant],
        not_adopted: frozenset[str] = frozenset(),
    ) -> None:
        self._client = client
        self._store = store
        self._recorder = recorder
        self._now = now
        self._adopted = {each.name for each in ADOPTED} - not_adopted
        self._told: OrderedDict[str, None] = OrderedDict()
        """Uids of owners."""

    async def run(self) -> None:
        """Check at regular intervals, forever."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await self.look()
            except ApiError as error:
                _log.info("pods without a node not read, again soon: %s", error)

    async def look(self) -> None:
        """Send Events to the owners of pods that have no node now. Raises ApiError."""
        paid = self._paid()
        if not paid:
            return
        listing = await self._client.list(
            PODS.all(), labels=f"!{LABEL_JOB_UID}", fields="status.phase=Pending,spec.nodeName="
        )
        devices = [pool.device for pool in self._store.view(kinds.GPU_POOLS).objects.values()]
        resources = tuple(dict.fromkeys([*GPU_RESOURCES, *devices]))
        others = self._others_nodes()
        homeless = {
            pod.manager[3]: pod
            for raw in listing.items
            if (pod := decode.homeless_pod(raw, resources)) is not None
            and pod.namespace in paid
            and not any(all(node.count(name) >= gpus for name, gpus in pod.gpus) for node in others)
            and pod.manager[3] not in self._told
            and seconds_between(pod.since, self._now()) > _PATIENCE_SECONDS
        }
        for pod in list(homeless.values())[:_TOLD_AT_ONCE]:
            if not await self._served(pod):
                self._tell(pod, paid[pod.namespace])

    def _paid(self) -> Mapping[str, Budget]:
        """The namespaces for whose TrainingJobs nodes are rented, with the budgets that pay."""
        budgets = self._store.view(kinds.GPU_BUDGETS).objects
        payers = payers_of(budgets, self._store.view(kinds.NAMESPACES).objects)
        return {name: budget for name, budget in payers.items() if budget.mode is Mode.ENFORCE and not budget.deleting}

    def _others_nodes(self) -> Sequence[Node]:
        """The nodes that Charterer has not rented. A pod may be waiting for one of these nodes."""
        rented = {rental.node for rental in self._store.view(kinds.GPU_RENTALS).objects.values()}
        return [node for node in self._store.view(kinds.NODES).objects.values() if node.name not in rented]

    async def _served(self, pod: HomelessPod) -> bool:
        """Whether an autoscaler has announced a node for the pod."""
        listing = await self._client.list(EVENTS.all(pod.namespace), fields=f"regarding.uid={pod.uid}")
        return any(raw.get("reason") in _SERVED for raw in listing.items)

    def _tell(self, pod: HomelessPod, budget: Budget) -> None:
        api_version, kind, name, uid = pod.manager
        labelled = f'label this {kind} {LABEL_ADOPT}: "true"'
        remedy = labelled if kind in self._adopted else "put its template into a TrainingJob"
        gpus = count(sum(number for _, number in pod.gpus), "GPU")
        note = (
            f"pod {pod.name} asks for {gpus}, and there is no node for it. GPUBudget {budget.id} "
            f"rents nodes for what asks it to: {remedy} (docs/bring-what-you-have.md)"
        )
        subject = EventSubject(api_version, kind, pod.namespace, name, uid)
        self._recorder.record(subject, NOT_A_TRAINING_JOB, note, action="Look")
        self._told[uid] = None
        while len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
