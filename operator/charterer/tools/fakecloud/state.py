"""The cloud's durable state: one sqlite file, a transaction for each mutation, and a copy in memory for reading.

If the process is killed at any point, the next one continues from the last finished mutation. A mutation that fails
half-way is rolled back, and the copy is read again, so memory never has what the file does not have.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import TypeAdapter

from charterer.tools.fakecloud.records import Activity, CloudAccount, InstanceGroup, Machine

_ACTIVITIES_KEPT = 100
_LOCK_SECONDS = 0.5
_SCHEMA = """
CREATE TABLE IF NOT EXISTS account (one INTEGER PRIMARY KEY CHECK (one = 1), body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS groups (name TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS machines (id TEXT PRIMARY KEY, ordinal INTEGER NOT NULL, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS activities (id TEXT PRIMARY KEY, ordinal INTEGER NOT NULL, body TEXT NOT NULL);
"""
_accounts = TypeAdapter(CloudAccount)
_groups = TypeAdapter(InstanceGroup)
_machines = TypeAdapter(Machine)
_activities = TypeAdapter(Activity)


class StateInUse(RuntimeError):
    """Another process has the state file open, or the file is no state file."""


class State:
    """All records of the cloud. Mappings are for reading. Methods ``put_…`` are for writing, inside ``transaction()``.

    ``machines``, ``activities``: in the order of their launch. Each group keeps its newest 100 activities.
    ``members``: for each group, the machines that count for its target.
    """

    def __init__(self, path: Path | None, on_commit: Callable[[], None] = lambda: None) -> None:
        """Open or create the file and its folder. If ``path`` is None, nothing is stored on disk. ``on_commit`` is
        called after a transaction.

        Raises StateInUse if another process has the file, and OSError if the folder cannot be made.
        """
        self._on_commit = on_commit
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path or ":memory:", timeout=_LOCK_SECONDS, isolation_level=None)
        try:
            # A killed process loses nothing with synchronous=NORMAL; a power cut may lose the last mutations.
            self._db.executescript("PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;")
            self._db.executescript(_SCHEMA)
            self._db.execute("BEGIN IMMEDIATE").execute("COMMIT")
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise StateInUse(
                f"the state file {path} cannot be opened ({error}); does another fake cloud use it, or is it another "
                "file?"
            ) from error
        self._dirty = False
        self._load()

    def _load(self) -> None:
        rows = self._db.execute
        account = rows("SELECT body FROM account").fetchone()
        self.account: CloudAccount | None = None if account is None else _accounts.validate_json(account[0])
        groups = [_groups.validate_json(body) for (body,) in rows("SELECT body FROM groups ORDER BY name")]
        self.groups = {group.name: group for group in groups}
        machines = [_machines.validate_json(body) for (body,) in rows("SELECT body FROM machines ORDER BY ordinal")]
        self.machines = {machine.id: machine for machine in machines}
        self.members: dict[str, dict[str, Machine]] = {name: {} for name in self.groups}
        for machine in machines:
            self._index(machine)
        activities = [
            _activities.validate_json(body) for (body,) in rows("SELECT body FROM activities ORDER BY ordinal")
        ]
        self.activities: dict[str, list[Activity]] = {name: [] for name in self.groups}
        for activity in activities:
            self.activities[activity.group].append(activity)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write durably when the block ends everything that was put inside it. If the block raises, nothing is
        written.
        """
        self._db.execute("BEGIN IMMEDIATE")
        self._dirty = False
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # some errors, such as a full disk, have already rolled the transaction back
                self._db.execute("ROLLBACK")
            if self._dirty:
                self._load()
            raise
        self._on_commit()

    def put_account(self, account: CloudAccount) -> None:
        """Write the account."""
        self._write("INSERT OR REPLACE INTO account VALUES (1, ?)", (_accounts.dump_json(account),))
        self.account = account

    def put_group(self, group: InstanceGroup) -> None:
        """Write a new or changed group."""
        body = _groups.dump_json(group, by_alias=True)
        self._write("INSERT OR REPLACE INTO groups VALUES (?, ?)", (group.name, body))
        self.groups[group.name] = group
        self.activities.setdefault(group.name, [])
        self.members.setdefault(group.name, {})

    def put_machine(self, machine: Machine, ordinal: int = 0) -> None:
        """Write a new machine (with its ordinal) or a changed one."""
        body = _machines.dump_json(machine)
        if machine.id in self.machines:
            self._write("UPDATE machines SET body = ? WHERE id = ?", (body, machine.id))
        else:
            self._write("INSERT INTO machines VALUES (?, ?, ?)", (machine.id, ordinal, body))
        self.machines[machine.id] = machine
        self._index(machine)

    def _index(self, machine: Machine) -> None:
        if machine.detached is None:
            self.members[machine.group][machine.id] = machine
        else:
            self.members[machine.group].pop(machine.id, None)

    def add_activity(self, activity: Activity, ordinal: int) -> None:
        """Write a new activity. A group keeps 100 activities, so its oldest one may be dropped."""
        self._write("INSERT INTO activities VALUES (?, ?, ?)", (activity.id, ordinal, _activities.dump_json(activity)))
        kept = self.activities[activity.group]
        kept.append(activity)
        if len(kept) > _ACTIVITIES_KEPT:
            self._write("DELETE FROM activities WHERE id = ?", (kept.pop(0).id,))

    def _write(self, statement: str, values: tuple[object, ...]) -> None:
        self._dirty = True
        self._db.execute(statement, values)

    def close(self) -> None:
        """Close the file."""
        self._db.close()
