"""Runs that can never start as they are, by the words of the kubelet, the scheduler and the API server."""

from __future__ import annotations

import re
from typing import Final

from charterer.domain.job import Run

_REFUSED: Final = (
    "violates PodSecurity",
    "denied the request",
    "denied request",
    "no PriorityClass with name",
    "pod rejected: RuntimeClass",
    "error looking up service account",
)
"""In the Warning FailedCreate of a Job: Pod Security, a webhook, an admission policy, or something that the template
names and that is missing. A quota is said otherwise."""
_NOT_MOUNTED: Final = re.compile(r'FailedMount: .*(secret|configmap) "[^"]+" not found')
"""The Warning of a pod with a volume of a Secret or ConfigMap that does not exist."""


def hopeless(run: Run) -> bool:
    """Whether a pod of the run cannot start without an edit, or the API server refuses its pods."""
    if not run.pods:
        return any(words in run.warning for words in _REFUSED)
    return _NOT_MOUNTED.match(run.warning) is not None or any(pod.hopeless for pod in run.pods)
