"""Everything the thinking parts may know at one instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from purser.domain.budget import Budget
from purser.domain.errors import Problem
from purser.domain.ids import BudgetId, ClassId, JobId, NodeName, PoolId, RentalId
from purser.domain.job import Job
from purser.domain.pool import Pool, Survey
from purser.domain.profile import Profile
from purser.domain.rental import Rental
from purser.domain.time import Instant


@dataclass(frozen=True, slots=True)
class Node:
    """A Kubernetes Node. ``run_labels``: its ``run.purser.dev/*`` labels. ``foreign_gpus``: GPUs of pods not ours."""

    name: NodeName
    uid: str
    resource_version: str
    provider_id: str
    ready: bool
    unschedulable: bool
    deleting: bool
    gpus: int
    foreign_gpus: int
    run_labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One consistent view, built by ``controller.observe``; mappings are never changed after.

    ``now`` is the operator's clock; a pool without an entry in ``surveys`` has not been asked yet (or its cloud was
    never reached), and nothing is rented or ended there. ``problems`` are what joining found wrong.
    """

    now: Instant
    budgets: Mapping[BudgetId, Budget]
    pools: Mapping[PoolId, Pool]
    surveys: Mapping[PoolId, Survey]
    profiles: Mapping[ClassId, Profile]
    jobs: Mapping[JobId, Job]
    rentals: Mapping[RentalId, Rental]
    nodes: Mapping[NodeName, Node]
    problems: tuple[Problem, ...] = ()
