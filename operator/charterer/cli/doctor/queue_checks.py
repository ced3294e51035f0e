"""The checks of Kueue's queues that ask Charterer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from charterer.api.decode import MULTIKUEUE
from charterer.api.names import KUEUE_CHECK, KUEUE_CONTROLLER
from charterer.cli.doctor.finding import Finding, condition_of
from charterer.cli.shared.adopted_objects import Queues, checks_of
from charterer.cli.shared.leader import LeaderSeen

_EXCLUDE: Final = {
    "kueue.x-k8s.io/provisioning-request": "by which the cluster autoscaler adds nodes of its own",
    MULTIKUEUE: "by which its jobs run in another cluster: nothing is rented for them here, and they wait",
}
"""Controllers of checks that do not go together with Charterer's, and what they do."""
_TAKE_OUT = f"take {KUEUE_CHECK} out of its spec.admissionChecksStrategy"


def check_queues(queues: Queues | None, leader: LeaderSeen | None) -> Iterable[Finding]:
    """Whether somebody answers the queues that ask Charterer, and nobody else rents nodes for them."""
    if queues is None:
        yield Finding("queues", "Kueue's queues", "may not be read: they were left out", skipped=True)
        return
    check = queues.check(KUEUE_CHECK)
    controller = "" if check is None else (check.get("spec") or {}).get("controllerName", "")
    active = None if check is None else condition_of(check, "Active")
    for queue in queues.queues:
        subject = f"ClusterQueue {queue['metadata']['name']}"
        waits = f"asks AdmissionCheck {KUEUE_CHECK}, and every job in it waits:"
        if check is None:
            remedy = f"install the chart with kueue.enabled=true, or {_TAKE_OUT}"
            yield Finding("queues", subject, f"{waits} there is none of that name", remedy)
        elif controller != KUEUE_CONTROLLER:
            text = f"{waits} its controllerName is {controller}, not {KUEUE_CONTROLLER}"
            yield Finding("queues", subject, text, f"delete that AdmissionCheck and upgrade the chart, or {_TAKE_OUT}")
        elif leader is not None and leader.trouble:
            remedy = f"start the operator, or {_TAKE_OUT}"
            yield Finding("queues", subject, f"{waits} no operator answers it ({leader.trouble})", remedy)
        elif active is None or active.get("status") != "True":
            remedy = "wait half a minute"
            yield Finding("queues", subject, f"{waits} the operator has not made it active yet", remedy)
        else:
            yield Finding("queues", subject, f"asks AdmissionCheck {KUEUE_CHECK}, and the operator answers it")
        for other in checks_of(queue):
            found = queues.check(other)
            does = None if found is None else _EXCLUDE.get((found.get("spec") or {}).get("controllerName", ""))
            if does is not None:
                text = f"asks AdmissionCheck {other}, too, {does}"
                yield Finding("queues", subject, text, f"keep only one of {other} and {KUEUE_CHECK} in the queue")
