"""Pods that the kubelet of their node refused before any container of them began: a lost GPU, a device plugin that
restarts, a node that is full after all.

Nothing of the job ran, so nothing of it has failed: such a run counts as one that never started, or was interrupted if
it had been running, and the node is not used again (``Node.refused``).
"""

from __future__ import annotations

from charterer.domain.job import Job, Run, RunOutcome
from charterer.domain.reasons.facts_of_nodes import RefusedPod
from charterer.domain.time import Instant, seconds_between


def refusal(run: Run) -> str:
    """Which pod of the run was refused and by which node, in the kubelet's words; empty if none was."""
    refused = min((pod for pod in run.pods if pod.refused), key=lambda pod: pod.index, default=None)
    return "" if refused is None else RefusedPod.of(refused).sentence()


def refused_outcome(job: Job, run: Run, at: Instant) -> RunOutcome:
    """How a run with a refused pod ended ``at``.

    A kubelet that restarts refuses pods that it ran before, too. Had a run not been running by its time to get ready,
    it would have been withdrawn.
    """
    reported = job.progress is not None and job.progress.run == run.number
    ran = run.started is not None and seconds_between(run.started, at) > job.ready_timeout_seconds
    return RunOutcome.INTERRUPTED if reported or ran else RunOutcome.NOT_STARTED
