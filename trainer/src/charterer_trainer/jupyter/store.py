"""The kernel's values. Some are in its namespace. Others are in parcels from the worker, because no cell of the
kernel's process has used them yet.

A parcel stays bytes in host memory until a cell of the kernel's process uses one of its names. So the kernel's image
needs no framework for values that it only stores, and gigabytes that no cell uses are never unpickled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Any

from charterer_trainer.jupyter.cells import CellNames
from charterer_trainer.jupyter.values import Parcel, Values


class ValueLostError(Exception):
    """A cell uses a name whose value is unavailable in this process."""


class Store:
    """The values and their states.

    ``unsaved``: names that cells of the worker changed and whose values have not come yet. ``as_of``: for each name,
    the cell after which its stored value came. ``elsewhere``: names whose values cannot be pickled and therefore stay
    with the worker, with the reasons. ``lost``: names whose latest values were lost, as long as no cell has reported
    the loss.
    """

    def __init__(self, namespace: dict[str, Any], hidden: Callable[[str], bool]) -> None:
        self.values = Values(namespace, hidden)
        self.parked: dict[str, Parcel] = {}
        self.unsaved: set[str] = set()
        self.as_of: dict[str, str] = {}
        self.elsewhere: dict[str, str] = {}
        self.lost: set[str] = set()
        self._held: set[str] = set()

    def uses(self, cell: CellNames) -> set[str]:
        """All names that a cell may use here."""
        return self.values.closure(cell, self.parked)

    def known(self) -> set[str]:
        """All names that have a value, here or in a parcel."""
        return self.values.names() | self.parked.keys()

    def prepare(self, cell: CellNames) -> None:
        """Bind the values that a cell of this process may use. Raises ValueLostError if a value cannot be made in this
        process.
        """
        used = self.uses(cell)
        self._tell_loss(used)
        for name in sorted(used & self.parked.keys()):
            if name in self.parked:
                with contextlib.nullcontext() if name in cell.used else contextlib.suppress(ValueLostError):
                    self._bind(name, self.parked[name])
        if stuck := cell.reads & self.elsewhere.keys() - cell.binds:
            name = min(stuck)
            raise ValueLostError(f"`{name}` is only in the process with the GPU: {self.elsewhere[name]}")
        self.values.touch(used)

    def _bind(self, name: str, parcel: Parcel) -> None:
        try:
            self.values.install(parcel)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise ValueLostError(
                f"the value of `{name}` is kept for cells with a GPU, but cannot be used in this process: {why}"
            ) from error
        if not self._held.issuperset(parcel.names):
            self.values.forget(parcel.names)
        self._drop(parcel.names)

    def ran_here(self, cell: CellNames) -> None:
        """Record that a cell of this process has run."""
        self.values.touch(cell.binds)
        for name in cell.binds:
            self.elsewhere.pop(name, None)
        if cell.opaque:
            self.values.touch(self.values.names())

    def outgoing(self, cell: CellNames) -> tuple[list[Parcel], list[str]]:
        """The parcels that the worker needs before it runs the cell, and the names that it must remove.

        Raises ValueLostError for a value that cannot be pickled.
        """
        changes = self.values.changed(cell, self.parked)
        self._tell_loss(changes.used)
        if not cell.opaque and (stuck := changes.used & self.values.stuck.keys()):
            name = min(stuck)
            raise ValueLostError(f"`{name}` cannot go to the process with the GPU: {self.values.stuck[name]}")
        kept = {id(self.parked[name]): self.parked[name] for name in changes.used & self.parked.keys() - self._held}
        for parcel in kept.values():
            self._held.update(parcel.names)
        return [*changes.parcels, *kept.values()], sorted(changes.gone)

    def changing(self, names: Iterable[str]) -> None:
        """Record that a cell of the worker may have changed these names."""
        self.unsaved.update(names)

    def take(self, parcels: Iterable[Parcel], gone: Iterable[str], stuck: dict[str, str], cell: str) -> None:
        """Store the values that the worker has sent after this cell. They are the values of all unsaved names."""
        for parcel in parcels:
            self._remove(parcel.names)
            self.parked.update(dict.fromkeys(parcel.names, parcel))
            self._held.update(parcel.names)
            self.as_of.update(dict.fromkeys(parcel.names, cell))
        self._remove(gone)
        self._remove(stuck)
        self.elsewhere = dict(stuck)
        self.unsaved.clear()

    def worker_gone(self) -> None:
        """Record that no process with a GPU has values any more."""
        self.lost |= self.unsaved | self.elsewhere.keys()
        self.values.forget_all()
        self._held.clear()
        self.unsaved.clear()
        self.elsewhere.clear()

    def ages(self, names: Iterable[str]) -> str:
        """Sentences that say after which cell the values of these names were stored."""
        groups: dict[str, list[str]] = {}
        known = self.known()
        for name in sorted(names):
            if name not in known:
                age = "no value"
            else:
                age = (
                    f"as of the end of cell {self.as_of[name]}"
                    if name in self.as_of
                    else "as before any cell with a GPU"
                )
            groups.setdefault(age, []).append(f"`{name}`")
        return "\n".join(f"{', '.join(group)}: {age}." for age, group in groups.items())

    def _tell_loss(self, used: AbstractSet[str]) -> None:
        if concerned := used & self.lost:
            self.lost -= concerned
            raise ValueLostError(
                "The process with the GPU was lost before it had sent the latest values. "
                f"Run this cell again to go on with older ones:\n{self.ages(concerned)}"
            )

    def _remove(self, names: Iterable[str]) -> None:
        names = list(names)
        self._drop(names)
        self.values.forget(names)
        for name in names:
            self.values.namespace.pop(name, None)

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            parcel = self.parked.pop(name, None)
            self._held.discard(name)
            for other in () if parcel is None else parcel.names:
                if self.parked.get(other) is parcel and other not in names:
                    raise AssertionError(f"{other} would be torn from {name}")
