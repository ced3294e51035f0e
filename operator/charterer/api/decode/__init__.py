"""Raw JSON of the API server to domain values: Charterer's own kinds (jobs, profiles, budgets,
supply) and Kubernetes' (core, foreign).

Lenient in reading: unknown fields are ignored. What cannot be understood raises ``domain.errors.InvalidObject``, whose
problem names object, field, value and what to do. Nothing else may look into raw objects.
"""

from charterer.api.decode.budgets import budget
from charterer.api.decode.core import ForeignPod, OwnPod, namespace, node, pod, service
from charterer.api.decode.foreign import ForeignJob, ForeignWorker, foreign_job, foreign_worker
from charterer.api.decode.jobs import DecodedJob, training_job
from charterer.api.decode.profiles import profile
from charterer.api.decode.supply import pool, rental
from charterer.api.metadata import conditions

__all__ = [
    "DecodedJob",
    "ForeignJob",
    "ForeignPod",
    "ForeignWorker",
    "OwnPod",
    "budget",
    "conditions",
    "foreign_job",
    "foreign_worker",
    "namespace",
    "node",
    "pod",
    "pool",
    "profile",
    "rental",
    "service",
    "training_job",
]
