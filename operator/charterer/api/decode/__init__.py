"""Decoding of raw JSON from the API server: Charterer's own kinds (``own``) and Kubernetes' (``core``, ``foreign``).

The models decode Charterer's own kinds. Unknown fields are ignored. An unreadable object raises
``domain.errors.InvalidObject``, whose problem names object, field, value and remedy. Only ``api`` reads raw objects.
"""

from charterer.api.decode.core import (
    DecodedNamespace,
    ForeignPod,
    JobPod,
    PublishedGpus,
    namespace,
    node,
    pod,
    pod_trouble,
    published_gpus,
    service,
    warning_event,
    was_told_to_end,
    with_published,
)
from charterer.api.decode.foreign import (
    MULTIKUEUE,
    DecodedCheck,
    ForeignJob,
    ForeignWorker,
    HomelessPod,
    admission_check,
    foreign_job,
    foreign_worker,
    homeless_pod,
)
from charterer.api.decode.own import budget, pool, pool_set, profile, rental, training_job
from charterer.api.metadata import conditions
from charterer.api.models.trainingjob import DecodedJob

__all__ = [
    "MULTIKUEUE",
    "DecodedCheck",
    "DecodedJob",
    "DecodedNamespace",
    "ForeignJob",
    "ForeignPod",
    "ForeignWorker",
    "HomelessPod",
    "JobPod",
    "PublishedGpus",
    "admission_check",
    "budget",
    "conditions",
    "foreign_job",
    "foreign_worker",
    "homeless_pod",
    "namespace",
    "node",
    "pod",
    "pod_trouble",
    "pool",
    "pool_set",
    "profile",
    "published_gpus",
    "rental",
    "service",
    "training_job",
    "warning_event",
    "was_told_to_end",
    "with_published",
]
