"""A variant of a job: another way to do the same training, with a speed of its own."""

from __future__ import annotations

from typing import NamedTuple

from charterer.domain.ids import ClassId


class Variant(NamedTuple):
    """``class_id``: the class that says how fast it is; the others are what it runs on, as in ``Widths``.

    A tuple, as part of keys.
    """

    name: str
    class_id: ClassId
    least: int
    preferred: int
    most: int
    slices: tuple[str, ...] = ()
    shared_mib: int = 0
