"""What outlives the process, and what does not happen twice because of it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from charterer.tools.fakecloud.records import MachinePhase
from charterer.tools.fakecloud.state import State, StateInUse
from tests.unit.fakecloud.world import World, config


def test_a_new_process_goes_on_with_machines_target_orders_and_bill(tmp_path: Path) -> None:
    world = World(config({"listedSeconds": 1000}), tmp_path / "cloud.db")
    world.cloud.set_target("a100", 2)
    world.cloud.terminate("a100", world.alive()[0], decrement=True)
    before = world.cloud.machines()
    world.reopen()
    assert world.cloud.machines() == before
    assert world.cloud.group("a100").target == 1
    world.wait(60)
    assert world.states() == [MachinePhase.ENDED, MachinePhase.RUNNING]


def test_time_goes_on_while_no_process_runs(tmp_path: Path) -> None:
    world = World(config({"retrySeconds": 30, "stock": 1}), tmp_path / "cloud.db")
    world.cloud.set_target("a100", 2)
    [machine] = world.alive()
    world.cloud.interrupt(machine, 120)
    world.now += 3_600_000_000
    world.reopen()
    assert world.cloud.machine(machine).seconds(world.now) == 120
    assert world.states() == [MachinePhase.PENDING], "the old one is no longer listed, and its place was free"


def test_what_was_changed_by_hand_outlives_a_restart_with_the_same_configuration(tmp_path: Path) -> None:
    world = World(config({"stock": 5}, quotas={"A100": 8}), tmp_path / "cloud.db")
    world.cloud.change_group("a100", {"stock": 0})
    world.cloud.change_quotas({"A100": 4})
    world.reopen()
    assert (world.cloud.group("a100").spec.stock, world.cloud.account.quota("A100")) == (0, 4)
    world.reopen(config({"stock": 7}, quotas={"A100": 16}))
    assert (world.cloud.group("a100").spec.stock, world.cloud.account.quota("A100")) == (7, 16)


def test_a_mutation_that_fails_half_way_leaves_nothing_behind(tmp_path: Path) -> None:
    world = World(config(), tmp_path / "cloud.db")
    world.cloud.set_target("a100", 1)
    machines, groups = dict(world.state.machines), dict(world.state.groups)

    def half_a_mutation() -> None:
        with world.state.transaction():
            world.state.put_group(world.cloud.group("a100").with_target(5, world.now))
            raise RuntimeError("the process dies")

    with pytest.raises(RuntimeError):
        half_a_mutation()
    assert (world.state.machines, world.state.groups) == (machines, groups)


def test_two_processes_never_share_a_state_file(tmp_path: Path) -> None:
    first = State(tmp_path / "new/folder/cloud.db")
    with pytest.raises(StateInUse, match=r"cloud\.db"):
        State(tmp_path / "new/folder/cloud.db")
    first.close()
    State(tmp_path / "new/folder/cloud.db").close()


class Failing:
    """A database that fails to commit."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement == "COMMIT":
            raise sqlite3.OperationalError("disk I/O error")
        return self._database.execute(statement, *values)


def test_what_cannot_be_committed_is_not_in_memory_either(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(config())
    database = world.state._db
    monkeypatch.setattr(world.state, "_db", Failing(database))
    with pytest.raises(sqlite3.OperationalError):
        world.cloud.set_target("a100", 1)
    monkeypatch.setattr(world.state, "_db", database)
    assert world.alive() == []
    world.cloud.set_target("a100", 2)
    assert len(world.alive()) == 2


def test_a_file_that_is_no_state_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database at all, but long enough to be taken for one\n" * 20)
    with pytest.raises(StateInUse, match="or is it another file"):
        State(tmp_path / "notes.txt")
