"""A fake cloud on a clock that only the test moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from charterer.tools.fakecloud.cloud import FakeAccount, RefusedCall
from charterer.tools.fakecloud.config import SECOND, CloudConfig
from charterer.tools.fakecloud.records import MachinePhase
from charterer.tools.fakecloud.state import State

BORN = 1_700_000_000 * SECOND

A100: dict[str, Any] = {
    "name": "a100",
    "instanceType": "fake.a100-4x",
    "gpuType": "A100",
    "gpusPerInstance": 4,
    "zone": "fake-1a",
    "hourlyPrice": "3.60",
    "maxSize": 8,
    "startupSeconds": [60],
}


def config(*groups: dict[str, Any], **account: Any) -> CloudConfig:
    """A cloud with one group a100 for each argument, which says what differs from the plain one."""
    return CloudConfig.model_validate({"groups": [A100 | group for group in groups or ({},)], **account})


def refused(code: str) -> pytest.RaisesExc[RefusedCall]:
    """The call inside is refused with that code."""
    return pytest.RaisesExc(RefusedCall, check=lambda refusal: refusal.code == code)


@dataclass(slots=True)
class World:
    """The cloud, its clock (microseconds) and its state file (None: in memory)."""

    config: CloudConfig
    path: Path | None = None
    now: int = BORN
    state: State = field(init=False)
    cloud: FakeAccount = field(init=False)

    def __post_init__(self) -> None:
        self._open()

    def _open(self) -> None:
        self.state = State(self.path)
        self.cloud = FakeAccount(self.state, lambda: self.now, self.config)

    def reopen(self, changed: CloudConfig | None = None) -> None:
        """A new process on the same state file, perhaps with another configuration."""
        self.state.close()
        self.config = changed or self.config
        self._open()

    def wait(self, seconds: float) -> None:
        """Let that much time pass; the cloud's timer fires at every instant that it asked for."""
        end = self.now + round(seconds * SECOND)
        while (due := self.cloud.next_due()) is not None and due <= end:
            self.now = max(self.now, due)
            self.cloud.advance()
        self.now = end
        self.cloud.advance()

    def alive(self, group: str = "a100") -> list[str]:
        """Ids of the machines of a group that exist now."""
        machines = self.cloud.machines()
        return [machine.id for machine in machines if machine.group == group and not machine.ended(self.now)]

    def states(self, group: str = "a100") -> list[MachinePhase]:
        """The states that the group's list shows."""
        seen, machines = self.cloud.listed(group)
        return [machine.state(seen) for machine in machines]
