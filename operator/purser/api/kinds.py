"""All kinds of the API, in the order in which documentation shows them."""

from __future__ import annotations

from typing import Final

from purser.api.base import Kind
from purser.api.gpubudget import GPU_BUDGET
from purser.api.gpupool import GPU_POOL
from purser.api.gpurental import GPU_RENTAL
from purser.api.speedupprofile import SPEEDUP_PROFILE
from purser.api.trainingjob import TRAINING_JOB

KINDS: Final[tuple[Kind, ...]] = (GPU_BUDGET, GPU_POOL, TRAINING_JOB, SPEEDUP_PROFILE, GPU_RENTAL)
