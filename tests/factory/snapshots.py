"""Snapshots of the other objects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from charterer.domain.budget import Budget
from charterer.domain.job import Job
from charterer.domain.pool import Pool, Survey
from charterer.domain.profile import Profile
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Node, Snapshot
from charterer.domain.time import Instant
from charterer.lifecycle.view import LifecycleView, uses_now
from tests.factory.budgets import budget
from tests.factory.pools import pool
from tests.factory.times import at


def with_uses(seen: Snapshot) -> Snapshot:
    """The snapshot whose rentals have on record what its jobs tell of their GPUs."""
    view = LifecycleView.of(seen)
    rentals = {name: uses_now(rental, view.uses.get(name, ()), seen) for name, rental in seen.rentals.items()}
    return replace(seen, rentals=rentals)


def snapshot(
    *objects: Budget | Pool | Survey | Profile | Rental | Node | Job, now: Instant | None = None, bare: bool = False
) -> Snapshot:
    """A snapshot of these objects, ten minutes after T0; with the usual pool and budget unless ``bare``."""

    def of(kind: type, default: Iterable[Any] = ()) -> list[Any]:
        given = [item for item in objects if isinstance(item, kind)]
        return given or ([] if bare else list(default))

    return Snapshot(
        now=at(600) if now is None else now,
        budgets={item.id: item for item in of(Budget, [budget()])},
        pools={item.id: item for item in of(Pool, [pool()])},
        surveys={item.pool: item for item in of(Survey)},
        profiles={item.id: item for item in of(Profile)},
        jobs={item.id: item for item in of(Job)},
        rentals={item.id: item for item in of(Rental)},
        nodes={item.name: item for item in of(Node)},
    )
