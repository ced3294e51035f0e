"""The common part of all frameworks: a training loop whose group of processes changes while it runs."""

from __future__ import annotations

import gc
import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NoReturn, TypeVar

from charterer_trainer.environment import Environment
from charterer_trainer.inplace.board import own_port
from charterer_trainer.inplace.launch import fixed_members
from charterer_trainer.inplace.rendezvous import Excluded, Finished, Rendezvous
from charterer_trainer.inplace.standstill import Standstill
from charterer_trainer.inplace.watchdog import Watchdog, restart
from charterer_trainer.members import Members
from charterer_trainer.session import STOPPED, Session

log = logging.getLogger("charterer_trainer")

DEFAULT_PATIENCE_SECONDS = 30.0
"""Seconds within which a decided group must form, and within which a new group must be announced to the survivors of a
failure.
"""
_AGAIN_SECONDS = 10.0
_BARRIER_SECONDS = 10.0
_COLLECTIVES = ("gloo", "nccl", "by peer", "pair closure", "timed out waiting")
"""Lower-case parts of the messages of failed collectives. Messages are compared, because JAX turns gloo's plain
RuntimeErrors into ValueErrors.
"""
_GO_ON, _STOP, _START_ANEW = 0, 1, 2
"""The votes of ranks. The result of a vote is the largest of all votes."""
_SAVE_SECONDS = 600.0
"""Seconds for which stopping ranks wait for the rank that saves. The pods' grace period ends before that."""

_Callback = TypeVar("_Callback", bound=Callable[[], object])


class ElasticJob:
    """One process's view of the group. ``step`` counts the completed steps of all processes together."""

    def __init__(
        self,
        session: Session,
        environment: Environment,
        *,
        step: int,
        save: Callable[[int], object] | None,
        timeout: float,
        patience: float,
    ) -> None:
        self.step = step
        self._timeout = timeout
        self._patience = patience
        self.standstill = Standstill()
        self._session = session
        self._save = save
        self._saved = False
        fixed = fixed_members(environment)
        watch = session.members if fixed is None else None
        # 0, because no other process connects
        port = own_port() if fixed is None or fixed.leader == environment.index else 0
        self._rendezvous = Rendezvous(environment.index, watch, fixed, session.should_stop, port)
        self._watchdog = Watchdog()
        self._group = Members(-1, (environment.index,), ("",))
        self._trained = False  # whether this process has the state of a training group
        self._fresh = True
        self._votes: Any = None
        self._wanted: Members | None = None
        self._failures = 0
        self._failed_step = -1
        self._batch: int | None = None
        self._callbacks: list[Callable[[], object]] = []

    # -- interface for scripts

    @property
    def rank(self) -> int:
        """This process's rank among the members, from 0. A change of the members changes the rank."""
        return self._group.indexes.index(self._rendezvous.index)

    @property
    def world(self) -> int:
        """Number of training processes."""
        return len(self._group.indexes)

    @property
    def generation(self) -> int:
        """The operator's number of this group, or 0 if the group never changes."""
        return self._group.generation

    def on_resize(self, callback: _Callback) -> _Callback:
        """Register a callback that rebuilds samplers and groups.

        The callback runs now, and after each change before the next step.
        """
        self._callbacks.append(callback)
        callback()
        return callback

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Run the block as one step. ``step`` counts the step at the end of the block. Before the block, the ranks
        agree on stops and changes.

        If a peer fails during the block, the exception is suppressed and ``step`` stays the same. The next attempt
        repeats the step in the group that the operator announces. So the optimizer's step must be the last operation in
        the block that can fail. Any other exception is raised as usual. Raises SystemExit(143) if the run is to stop.
        If only a restart helps, the process ends with exit code 75.
        """
        self._begin()
        failure: str | None = None
        everybody = False
        try:
            with self._limit():
                yield
        except Exception as error:
            failure, everybody = self._failure_of(error)
        if failure is not None:
            self._recover(failure, everybody)
            return
        self.step += 1
        if self.standstill.open:
            self._resumed()

    # -- implemented by frameworks

    def _connect(self, members: Members, name: str) -> None:
        raise NotImplementedError

    def _share_state(self, source: int, behind: list[int]) -> None:
        """Send the state of rank ``source`` to the ranks ``behind``."""
        raise NotImplementedError

    def _place(self) -> None:
        raise NotImplementedError

    def _disconnect(self, failed: bool) -> None:
        raise NotImplementedError

    def _start_vote(self, stop: int, generation: int) -> Any:
        """Start a collective that finds the largest stop and the largest generation of all ranks."""
        raise NotImplementedError

    def _read_vote(self, votes: Any) -> tuple[int, int]:
        """The result of the vote."""
        raise NotImplementedError

    def _names_peers(self, error: Exception) -> bool:
        """Whether the error's message is that of a failed collective."""
        text = str(error).lower()
        return any(words in text for words in _COLLECTIVES)

    @property
    def _survives(self) -> bool:
        """Whether processes can continue after one of them has failed."""
        return False

    def _limit(self) -> AbstractContextManager[None]:
        """The context of each step, such as a time limit."""
        return nullcontext()

    @property
    def _worn(self) -> bool:
        """Whether this process has reached its maximum number of changes."""
        return False

    # -- the first group, and the next ones

    def _join_first(self) -> None:
        try:
            members = self._rendezvous.join(beyond=-1)
        except Finished:
            self._released()
        self._form(members)
        self._session.at_end(self._rendezvous.finish)

    def _released(self) -> NoReturn:
        log.info("training has ended without this process")
        self._rendezvous.released(self._group.generation)
        raise SystemExit(0)

    def _form(self, members: Members, again: int = 0) -> None:
        self._group = members
        self.standstill.mark("decided")
        try:
            with self._watchdog.limit(self._patience, f"forming the group of generation {members.generation}"):
                self._connect(members, f"{members.generation}.{again}")
        except Exception as error:
            self._restart(f"generation {members.generation} could not be formed: {type(error).__name__}: {error}")
        self.standstill.mark("formed")
        try:
            source, behind, step = self._who_sends(again)
            with self._watchdog.limit(self._timeout, "sending the state"):
                if behind:
                    self._share_state(source, behind)
            self.step = step
        except Exception as error:
            self._restart(f"the state did not arrive in generation {members.generation}: {error}")
        self.standstill.mark("state")
        self._place()
        self.standstill.mark("placed")
        self._rendezvous.formed(members)
        self._trained = self._fresh = True
        self._votes = None
        if not again:
            self._failures = 0
        if self.rank == 0:
            self._rendezvous.lead(members)
        else:
            self._rendezvous.rest()
        for callback in self._callbacks:
            callback()

    def _who_sends(self, again: int = 0) -> tuple[int, list[int], int]:
        """The rank whose state is used, the ranks that need this state, and the state's step.

        If no rank has trained, all other ranks need the state.
        """
        mine = [self.step if self._trained else -1, self.step]
        steps = self._rendezvous.gather(self._group, f"steps {again}", mine, self._patience)
        trained, loaded = [pair[0] for pair in steps], [pair[1] for pair in steps]
        if max(trained) < 0:
            source = loaded.index(max(loaded))
            return source, [rank for rank in range(self.world) if rank != source], loaded[source]
        source = trained.index(max(trained))
        return source, [rank for rank, step in enumerate(trained) if step < trained[source]], trained[source]

    def _leave(self, failed: bool = False) -> None:
        self._votes = None
        self._rendezvous.rest()
        with self._watchdog.limit(self._patience, "leaving the group"):
            self._disconnect(failed)
        if failed:
            gc.collect()
        self.standstill.mark("left")

    def _resumed(self) -> None:
        """Record the end of the first step of a group."""
        self.standstill.end("first step")
        seconds = self.standstill.seconds if self.standstill.of_change else None
        if self.standstill.of_change:
            log.info(
                "generation %d: %d processes from step %d on, after %s",
                self.generation,
                self.world,
                self.step - 1,
                self.standstill,
            )
        if self.generation > 0:
            self._session.formed(self.generation, seconds)

    # -- planned changes

    def _begin(self) -> None:
        if self._fresh:
            self._fresh = False
            return
        failure: str | None = None
        everybody = False
        decision, generation = _GO_ON, 0
        try:
            decision, generation = self._exchange()
        except Exception as error:
            failure, everybody = self._failure_of(error)
        if failure is not None:
            self._recover(failure, everybody)
            self._fresh = False
        elif decision != _GO_ON:
            self._stop(decision)
        elif generation:
            self._change(generation)
        elif self.rank == 0 and self._save is not None and self._session.should_checkpoint():
            self._save_now()

    def _exchange(self) -> tuple[int, int]:
        """Start a vote and read the result of the previous step's vote. So no rank waits for a vote."""
        before, self._votes = self._votes, None
        decision = (_GO_ON, 0) if before is None else self._read_vote(before)
        if decision == (_GO_ON, 0):
            ballot = (int(self._session.should_stop()), 0)
            if self.rank == 0 and (wanted := self._rendezvous.wanted) is not None:
                ballot = self._ballot_for(wanted, ballot[0])
            self._votes = self._start_vote(*ballot)
        return decision

    def _ballot_for(self, wanted: Members, stop: int) -> tuple[int, int]:
        """The leader's vote. It is for the wanted group once the newcomers of that group are ready."""
        others = wanted.indexes != self._group.indexes
        if others and self._worn:
            return max(stop, _START_ANEW), 0
        if others and not self._saved and self._save is not None:
            self._save_now()
        self._wanted = wanted
        return stop, wanted.generation

    def _save_now(self) -> None:
        assert self._save is not None
        self._save(self.step)
        self._saved = True

    def _stop(self, decision: int) -> NoReturn:
        """End all ranks, but none of them before the checkpoint is saved. When JAX's first process ends, the other
        processes end too.
        """
        if decision == _STOP:
            self._session.should_stop(agree=lambda _: True)
        if self.rank == 0 and self._save is not None:
            self._save_now()
        group = self._group
        if not self._rendezvous.meet(group, "stopped", _SAVE_SECONDS, lambda: bool(self._rendezvous.silent(group))):
            log.warning("a rank did not stop with the others")
        if decision == _START_ANEW:
            self._restart("it has changed as often as its processes can")
        raise SystemExit(STOPPED)

    def _change(self, generation: int) -> None:
        """Change to the group of this generation, for which all ranks have voted after the same step."""
        group = self._group
        self.standstill.begin(of_change=True)
        try:
            if self.rank == 0 and self._wanted is not None:
                self._rendezvous.announce(self._wanted)
            members = self._rendezvous.decided(group, generation)
            if (members.indexes, members.addresses) == (group.indexes, group.addresses):
                self._rename(members)
                return
            # a slower rank may still need its connections to this rank for its vote, so this rank keeps them
            if not self._rendezvous.all_say(group, generation, "voted", _BARRIER_SECONDS):
                raise TimeoutError("not every rank has come to the vote's end")
        except (OSError, ValueError) as error:
            self._restart(f"the change to generation {generation} failed: {error}")
        self.standstill.mark("agreed")
        self._leave()
        if self._rendezvous.index in members.indexes:
            self._form(members)
            self._begin()
        else:
            self._step_aside(members)

    def _rename(self, members: Members) -> None:
        """Adopt the new number of a group with the same members. The number in between was withdrawn before its group
        formed.
        """
        self._group = members
        self.standstill.open = False
        if self.rank == 0:
            self._rendezvous.lead(members)
        self._session.formed(members.generation)

    def _step_aside(self, members: Members) -> None:
        """Leave the group. Wait for SIGTERM, or until the operator includes this process again."""
        log.info("generation %d goes on without this process, which waits for its end", members.generation)
        self._trained = False
        self._session.formed(None)
        self._group = Members(members.generation, (self._rendezvous.index,), ("",))
        self.standstill.begin(of_change=False)
        try:
            again = self._rendezvous.join(members.generation)
        except Finished:
            self._released()
        self._form(again)
        self._begin()

    # -- a failed peer

    def _failure_of(self, error: Exception) -> tuple[str, bool]:
        """A description of a failure from which the group can recover, and whether every member answers. Other errors
        are raised again.

        The frames of the error are cleared, because they refer to the group's sockets, and other ranks wait until these
        sockets are closed.
        """
        if self.world == 1 or self.generation == 0 or not isinstance(error, (RuntimeError, ValueError)):
            raise error
        silent = self._rendezvous.silent(self._group)
        if not silent and (self._failed_step == self.step or not self._names_peers(error)):
            raise error
        link: BaseException | None = error
        while link is not None:
            if link.__traceback__ is not None:
                traceback.clear_frames(link.__traceback__)
            link.__traceback__ = None
            link = link.__context__
        first = str(error).partition("\n")[0][:200]
        return f"{first} (members that do not answer: {silent or 'none'})", not silent

    def _recover(self, failure: str, everybody: bool) -> None:
        log.warning("step %d failed: %s", self.step, failure)
        self.standstill.begin(of_change=True)
        if not self._survives:
            self._restart(failure)
        self._leave(failed=True)
        if everybody:
            self._failed_step = self.step
            self._failures += 1
            superseded = lambda: self._rendezvous.superseded(self.generation)  # noqa: E731
            if self._rendezvous.meet(self._group, f"again {self._failures}", _AGAIN_SECONDS, superseded):
                self._form(self._group, self._failures)
                return
        try:
            members = self._rendezvous.join(self.generation, self._patience)
        except (TimeoutError, Excluded) as error:
            self._restart(f"{failure}; {error}")
        except Finished:
            self._restart(failure)
        self._form(members)

    def _restart(self, why: str) -> NoReturn:
        if self._session.should_stop():
            raise SystemExit(STOPPED)
        restart(why)
