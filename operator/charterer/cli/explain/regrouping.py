"""What ``charterer explain`` says of a job whose pods come or go while it trains."""

from __future__ import annotations

from charterer.controller.status.jobs import regrouping, training_pods
from charterer.domain.job import Job
from charterer.domain.jobs.pod import Pod


def regrouping_sentence(job: Job) -> str:
    """How far the change is, with the pods that get ready by name; empty where there is none."""
    text, run = regrouping(job), job.current_run
    if not text or run is None or job.allocation is None:
        return ""
    there = {pod.index: pod for pod in run.pods if pod.live and not pod.deleting}
    joining = sorted(set(range(len(job.allocation.placements))) - set(training_pods(job)))
    told = [f"{run.name}-{index} ({_readiness(there.get(index))})" for index in joining]
    return f"It is resized in place: {text}{': ' if told else ''}{', '.join(told)}."


def _readiness(pod: Pod | None) -> str:
    if pod is None:
        return "not made yet"
    return pod.trouble or ("Ready" if pod.ready else str(pod.phase))
