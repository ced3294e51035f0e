"""A training run from its first line to its exit code: SIGTERM, requests to stop, and 143 when it was stopped."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from charterer_trainer.allocations import Allocation, from_environment, from_file
from charterer_trainer.checkpoints import saves
from charterer_trainer.client import Client
from charterer_trainer.ending import EXIT_SECONDS, end_now
from charterer_trainer.environment import Environment
from charterer_trainer.members import MembersWatch
from charterer_trainer.reporter import Reporter
from charterer_trainer.steps import PARTS

log = logging.getLogger("charterer_trainer")

_T = TypeVar("_T")

STOPPED = 143
"""The exit code of a stopped trainer (128 + SIGTERM). Kubernetes takes 0 for "this rank is finished"."""

_FIRST_ANSWER_SECONDS = 5.0
_LAST_POST_SECONDS = 3.0


_LARGEST = 10**15
_RANGES: dict[str, tuple[float, float]] = {
    "fraction": (0, float("inf")),
    "batch": (1, 10**9),
    "stepSeconds": (1e-6, 86_400.0),
    "gradSqr": (-1e30, 1e30),  # an unbiased estimate is negative in many a step
    "gradVar": (0, 1e30),
}
"""What the operator accepts in a field; in those that are not named, 0 to ``_LARGEST``. It refuses a whole report for
one number outside, and its answer is how a trainer hears of a stop. A fraction above 1 is sent as 1."""


def _number(name: str, kind: type[int] | type[float], value: Any) -> int | float | None:
    """``value`` as a number that the operator accepts in that field; None when it is none."""
    try:
        number = kind(value)
    except (TypeError, ValueError, OverflowError):
        return None
    least, most = _RANGES.get(name, (0, _LARGEST))
    return number if least <= number <= most and number < float("inf") else None


class Session:
    """This process's state of its run. One is made by ``run()``, or quietly by the first call of a function here."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._terminated = False
        self._stop_requested = False
        self._agreed: Callable[[bool], bool] | None = None
        self._at_end: list[Callable[[], None]] = []
        self._reporter: Reporter | None = None
        if environment.progress_url and environment.local_rank == 0:
            base = {"index": environment.index}
            if environment.run is not None:
                base["run"] = environment.run
            self._reporter = Reporter(Client(environment), base)

    @property
    def stopped(self) -> bool:
        """Whether the run must end with 143: SIGTERM came, the operator asked for a stop, or a rank agreed to one."""
        return self._terminated or self._stop_requested or self._agreed is not None

    def terminate(self) -> None:
        """SIGTERM came. Called by a signal's handler, so it takes no lock."""
        self._terminated = True

    def should_stop(self, agree: Callable[[bool], bool] | None = None) -> bool:
        """True from SIGTERM on, or from the operator's announcement of a stop: save a checkpoint and leave.

        ``agree``: a collective over all ranks, called with this rank's answer, that says whether any rank's is true,
        such as ``any_rank``. Every rank must call this equally often. What it says is this rank's answer from then on,
        so each of them leaves at the same step and ends with 143, also those that no signal reached.
        """
        if self._reporter is not None and self._reporter.stopping.is_set():
            self._stop_requested = True
        if agree is not None and agree(self.stopped):
            self._agreed = agree
        return self.stopped

    def wait_for_ranks(self) -> None:
        """Until all ranks that agreed to stop are here: where JAX's first process ends, it takes the others with it."""
        if self._agreed is not None:
            try:
                self._agreed(True)
            except Exception as error:
                log.warning("a rank did not leave with the others: %s", error)

    def report(
        self,
        *,
        step: int | None = None,
        total_steps: int | None = None,
        fraction: float | None = None,
        throughput: float | None = None,
        batch: int | None = None,
        step_seconds: float | None = None,
        grad_sqr: float | None = None,
        grad_var: float | None = None,
    ) -> None:
        """Say how far training is: keeps the numbers for the background thread and returns at once.

        ``fraction`` of the whole job in [0, 1], or ``step`` of ``total_steps``; ``throughput`` of the whole job in the
        unit of its SpeedupProfile. With ``batch``, the samples that all GPUs together see in a step, Charterer learns
        how fast the job's class is: from ``step_seconds`` (the mean of the last steps), else from when the steps are
        reported, else from ``throughput`` (then samples a second). ``grad_sqr`` and ``grad_var``, the squared norm of
        the gradient and the variance of its estimate at the class's own batch size, tell how large a batch may be; give
        both, with their signs: their means since the last post are sent. Numbers may be numpy or torch scalars; what is
        no number, or out of range (a gradient that explodes), is left out. The newest call
        counts: numbers that an earlier one gave, and this one does not, are not sent.
        """
        if self._reporter is None:
            return
        numbers: dict[str, object] = {}
        for name, kind, value in (
            ("step", int, step),
            ("totalSteps", int, total_steps),
            ("fraction", float, fraction),
            ("throughput", float, throughput),
            ("batch", int, batch),
            ("stepSeconds", float, step_seconds),
            ("gradSqr", float, grad_sqr),
            ("gradVar", float, grad_var),
        ):
            number = _number(name, kind, value)
            if number is not None:
                numbers[name] = min(number, 1.0) if name == "fraction" else number
        if not {"gradSqr", "gradVar"} <= numbers.keys():
            numbers.pop("gradSqr", None)
            numbers.pop("gradVar", None)
        self._reporter.report(numbers)

    def allocation(self) -> Allocation | None:
        """The run's allocation: from the operator's last answer, else the pod's annotation, else its environment.

        Waits a few seconds at most, only until the first post has ended, because only the operator knows of a resize
        at once.
        """
        answered = None
        if self._reporter is not None:
            self._reporter.tried.wait(_FIRST_ANSWER_SECONDS)
            answered = self._reporter.allocation
        return answered or from_file(self._environment) or from_environment(self._environment)

    @property
    def batch(self) -> int | None:
        """The batch size (samples per step, of all GPUs together) that the job should use now; None: as it likes.

        It changes while training goes on. Ranks hear of it at different times: use rank 0's, see docs/progress.md.
        """
        return None if self._reporter is None else self._reporter.batch

    def should_checkpoint(self) -> bool:
        """Whether the last ``save_atomically`` of this process, or its start, is long enough ago to save again.

        On nodes that the cloud takes back Charterer says how long is best; otherwise it is half an hour.
        """
        return saves.due(None if self._reporter is None else self._reporter.checkpoint_every)

    def spent(self, part: str, seconds: float) -> None:
        """Steps have spent that many seconds more in ``part``, one of ``steps.PARTS``. ValueError for another part."""
        if part not in PARTS:
            raise ValueError(f"{part!r} is no part of a step; {', '.join(PARTS)} are")
        if self._reporter is not None:
            self._reporter.spent(part, seconds)

    @contextmanager
    def phase(self, part: str) -> Iterator[None]:
        """Time the block as ``part`` of the step: "compute", "sync" (waiting for other ranks) or "load" (for input).

        Blocks must not lie in each other. What is measured for "sync" and "load" is not computing; so "compute" needs
        no block of its own.
        """
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.spent(part, time.perf_counter() - begin)

    def loading(self, batches: Iterable[_T]) -> Iterator[_T]:
        """The same batches; the seconds that each is waited for are the step's "load"."""
        iterator = iter(batches)
        while True:
            begin = time.perf_counter()
            try:
                batch = next(iterator)
            except StopIteration:
                return
            self.spent("load", time.perf_counter() - begin)
            yield batch

    def gradient(self, sqr: float, var: float) -> None:
        """A step's estimates, as ``grad_sqr`` and ``grad_var`` of ``report``, which then need not be given there."""
        if self._reporter is not None:
            numbers = {"gradSqr": _number("gradSqr", float, sqr), "gradVar": _number("gradVar", float, var)}
            if None not in numbers.values():
                self._reporter.gradient(numbers)

    @property
    def members(self) -> MembersWatch | None:
        """Who should form the group of a job that is resized in place; None where nobody says it."""
        return None if self._reporter is None else self._reporter.members

    def formed(self, generation: int | None, resize_seconds: float | None = None) -> None:
        """This process trains in the group of that generation (None: in none), after that long a standstill."""
        if self._reporter is not None:
            self._reporter.formed(generation, resize_seconds)

    def busy(self, busy: bool) -> None:
        """For an interactive job (spec.interactive): whether somebody uses the GPU now. It is given back when it has
        been idle for long; a job that never says this keeps its GPU."""
        if self._reporter is not None:
            self._reporter.busy(busy)

    def at_end(self, call: Callable[[], None]) -> None:
        """Call that once training has ended as it should: neither by an exception nor by a stop."""
        self._at_end.append(call)

    def ended(self) -> None:
        """Training has ended as it should."""
        for call in self._at_end:
            call()

    def close(self) -> None:
        """Post the last numbers, briefly."""
        if self._reporter is not None:
            self._reporter.close(_LAST_POST_SECONDS)
            self._reporter = None


_lock = threading.Lock()
_current: Session | None = None


def current() -> Session:
    """This process's session, which is made if there is none."""
    global _current
    with _lock:
        if _current is None:
            _current = Session(Environment.read(os.environ))
        return _current


def report(
    *,
    step: int | None = None,
    total_steps: int | None = None,
    fraction: float | None = None,
    throughput: float | None = None,
    batch: int | None = None,
    step_seconds: float | None = None,
    grad_sqr: float | None = None,
    grad_var: float | None = None,
) -> None:
    """See Session.report."""
    current().report(
        step=step,
        total_steps=total_steps,
        fraction=fraction,
        throughput=throughput,
        batch=batch,
        step_seconds=step_seconds,
        grad_sqr=grad_sqr,
        grad_var=grad_var,
    )


def batch() -> int | None:
    """See Session.batch; None outside Charterer."""
    return current().batch


def busy(busy: bool) -> None:
    """See Session.busy."""
    current().busy(busy)


def should_stop(agree: Callable[[bool], bool] | None = None) -> bool:
    """See Session.should_stop. With several ranks, ``should_stop(agree=any_rank)``."""
    return current().should_stop(agree)


def should_checkpoint() -> bool:
    """See Session.should_checkpoint. Ranks hear of it at different times: let rank 0 decide for all."""
    return current().should_checkpoint()


def allocation() -> Allocation | None:
    """See Session.allocation; None outside Charterer."""
    return current().allocation()


@contextmanager
def _sigterm(session: Session) -> Iterator[None]:
    """SIGTERM sets the session's flag within the block; only the main thread can install that, others go without."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    process = os.getpid()

    def handle(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:  # forked within the block: it has no run to end, and whoever forked it waits for it
            signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)
            os.kill(os.getpid(), signal.SIGTERM)
            return
        session.terminate()
        if callable(before):
            before(number, frame)

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


@contextmanager
def run(*, exit_seconds: float = EXIT_SECONDS) -> Iterator[Session]:
    """The block is the training run. SIGTERM within it no longer kills: it makes ``should_stop()`` true.

    When the run was stopped, the process **ends with 143 where it leaves the block**, also when the block ended
    normally or (with the traceback printed, because ranks whose peers stop first fail) with an exception. Nothing
    after or around the block runs any more. The last numbers are posted, ranks that agreed to stop wait for each
    other, handlers of ``atexit`` run for at most ``exit_seconds``, open files are written, and Python's shut-down,
    which takes seconds with a framework, is left out. With ``exit_seconds`` 0 the handlers are left out, too. In
    another thread than the main one, and in a forked process, SystemExit(143) is raised instead.

    A run that was not stopped ends as the block does.
    """
    global _current
    session = current()
    process = os.getpid()
    try:
        with _sigterm(session):
            error: BaseException | None = None
            try:
                yield session
                if not session.stopped:
                    session.ended()
            except BaseException as raised:
                error = raised
            session.close()
            if session.stopped:
                if error is None:
                    session.wait_for_ranks()
                if isinstance(error, Exception):  # the code does not show it
                    traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)
                if os.getpid() == process and threading.current_thread() is threading.main_thread():
                    end_now(STOPPED, exit_seconds)
                raise SystemExit(STOPPED)
            if error is not None:
                raise error
    finally:
        with _lock:
            _current = None
