"""Answers of another shape than a cloud describes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from charterer.domain.ids import PoolId
from charterer.providers.errors import ProviderError


@contextmanager
def understood(pool: PoolId, call: str, otherwise: type[ProviderError]) -> Iterator[None]:
    """An answer of another shape than the SDK describes is an error about that pool, and about no other."""
    try:
        yield
    except (LookupError, ValueError, TypeError) as error:
        raise otherwise(pool, call, "MalformedAnswer", f"{type(error).__name__}: {error}") from error
