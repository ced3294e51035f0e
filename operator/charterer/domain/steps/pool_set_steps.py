"""Steps on the GPUPools of a GPUPoolSet: each is a mutation of one GPUPool that the set controls."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.ids import PoolId, PoolSetId


@dataclass(frozen=True, slots=True)
class CreatePool:
    """Create a GPUPool that the set declares and that is not there."""

    pool_set: PoolSetId
    pool: PoolId


@dataclass(frozen=True, slots=True)
class EditPool:
    """Give a GPUPool of the set the spec and the labels that the set declares."""

    pool_set: PoolSetId
    pool: PoolId


@dataclass(frozen=True, slots=True)
class DeletePool:
    """Delete a GPUPool of the set that it declares no more. Its finalizer keeps it until its rentals have ended."""

    pool_set: PoolSetId
    pool: PoolId
    uid: str


PoolSetStep = CreatePool | EditPool | DeletePool
