"""Decoding Charterer's own kinds: the parts of an object by their models, and from them the domain value."""

from __future__ import annotations

from charterer.api.metadata import ObjectMeta, Raw
from charterer.api.models.gpubudget import GPUBudgetSpec
from charterer.api.models.gpubudget_status import GPUBudgetRecord
from charterer.api.models.gpupool import GPUPoolRecord, GPUPoolSpec
from charterer.api.models.gpurental import GPURentalRecord, GPURentalSpec
from charterer.api.models.speedupprofile import SpeedupProfileRecord, SpeedupProfileSpec
from charterer.api.models.trainingjob import DecodedJob, TrainingJobSpec
from charterer.api.models.trainingjob_status import TrainingJobRecord
from charterer.domain.budget import Budget
from charterer.domain.errors import InvalidObject
from charterer.domain.pool import Pool
from charterer.domain.profile import Profile
from charterer.domain.rental import Rental


def training_job(raw: Raw) -> DecodedJob:
    """A TrainingJob."""
    meta = ObjectMeta.of("TrainingJob", raw)
    spec = meta.read(TrainingJobSpec, "spec", raw)
    return spec.to_domain(meta, meta.read(TrainingJobRecord, "status", raw))


def budget(raw: Raw) -> Budget:
    """A GPUBudget with its balance."""
    meta = ObjectMeta.of("GPUBudget", raw)
    spec = meta.read(GPUBudgetSpec, "spec", raw)
    return spec.to_domain(meta, meta.read(GPUBudgetRecord, "status", raw))


def pool(raw: Raw) -> Pool:
    """A GPUPool with the offering and the quote that were recorded."""
    meta = ObjectMeta.of("GPUPool", raw)
    spec = meta.read(GPUPoolSpec, "spec", raw)
    return spec.to_domain(meta, meta.read(GPUPoolRecord, "status", raw))


def rental(raw: Raw) -> Rental:
    """A GPURental."""
    meta = ObjectMeta.of("GPURental", raw)
    spec = meta.read(GPURentalSpec, "spec", raw)
    return spec.to_domain(meta, meta.read(GPURentalRecord, "status", raw))


def profile(raw: Raw) -> Profile:
    """A SpeedupProfile. If the learned part of its status cannot be read, the declared curves count."""
    meta = ObjectMeta.of("SpeedupProfile", raw)
    spec = meta.read(SpeedupProfileSpec, "spec", raw)
    try:
        record = meta.read(SpeedupProfileRecord, "status", raw)
        record.statistics()
    except InvalidObject as error:
        return spec.to_domain(meta, SpeedupProfileRecord(), f"{error.problem.field}: {error.problem.message}")
    except ValueError as error:
        return spec.to_domain(meta, SpeedupProfileRecord(), str(error))
    return spec.to_domain(meta, record)
