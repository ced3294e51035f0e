"""All kinds of the API, in the order of the documentation."""

from __future__ import annotations

from typing import Final

from charterer.api.models.base import ResourceKind
from charterer.api.models.gpubudget import GPU_BUDGET
from charterer.api.models.gpupool import GPU_POOL
from charterer.api.models.gpupoolset import GPU_POOL_SET
from charterer.api.models.gpurental import GPU_RENTAL
from charterer.api.models.speedupprofile import SPEEDUP_PROFILE
from charterer.api.models.trainingjob import TRAINING_JOB

KINDS: Final[tuple[ResourceKind, ...]] = (
    GPU_BUDGET,
    GPU_POOL,
    GPU_POOL_SET,
    TRAINING_JOB,
    SPEEDUP_PROFILE,
    GPU_RENTAL,
)
