"""A training run from start to exit code: SIGTERM, stop requests, and exit code 143 after a stop."""

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
"""The exit code of a stopped trainer (128 + SIGTERM). Kubernetes takes 0 as completion of this rank."""

_FIRST_ANSWER_SECONDS = 5.0
_LAST_POST_SECONDS = 3.0


_LARGEST = 10**15
_RANGES: dict[str, tuple[float, float]] = {
    "fraction": (0, float("inf")),
    "batch": (1, 10**9),
    "stepSeconds": (1e-6, 86_400.0),
    "gradSqr": (-1e30, 1e30),  # an unbiased estimate is often negative
    "gradVar": (0, 1e30),
}
"""The range of each field that the operator accepts. A field that is not here has the range 0 to ``_LARGEST``.

If one number is out of range, the operator refuses the whole report. The trainer would then miss the answer, which
announces stops. A fraction above 1 is sent as 1.
"""


def _number(name: str, kind: type[int] | type[float], value: Any) -> int | float | None:
    """``value`` as a number that the operator accepts in this field, or None if it is not acceptable."""
    try:
        number = kind(value)
    except (TypeError, ValueError, OverflowError):
        return None
    least, most = _RANGES.get(name, (0, _LARGEST))
    return number if least <= number <= most and number < float("inf") else None


class Session:
    """The state of this process's run. ``run()`` makes it. Otherwise the first call of another function of this module
    does.
    """

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
        """Whether the run must end with 143. That is so after SIGTERM, after the operator's request, and after the
        ranks have agreed to stop.
        """
        return self._terminated or self._stop_requested or self._agreed is not None

    def terminate(self) -> None:
        """Record SIGTERM. A signal handler calls it, so it takes no lock."""
        self._terminated = True

    def should_stop(self, agree: Callable[[bool], bool] | None = None) -> bool:
        """True after SIGTERM or after the operator has announced a stop. Then save a checkpoint and leave.

        ``agree`` is a collective over all ranks, such as ``any_rank``. It gets this rank's answer and returns whether
        the answer of any rank is true. Every rank must make this call equally often. The result of ``agree`` is this
        rank's answer from then on. So all ranks leave at the same step and end with 143, even ranks that no signal
        reached.
        """
        if self._reporter is not None and self._reporter.stopping.is_set():
            self._stop_requested = True
        if agree is not None and agree(self.stopped):
            self._agreed = agree
        return self.stopped

    def wait_for_ranks(self) -> None:
        """Wait for all ranks that agreed to stop. Otherwise the end of JAX's first process would end the other
        processes.
        """
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
        """Report progress. The background thread posts the numbers, and the call returns at once.

        ``fraction`` of the whole job is in [0, 1]. ``step`` of ``total_steps`` may replace it. ``throughput`` of the
        whole job is in the unit of its SpeedupProfile.

        If ``batch`` is given, the samples of all GPUs in a step, Charterer learns the speed of the job's class. For
        that, Charterer uses ``step_seconds`` (the mean of the last steps). Without it, the times of the reports are
        used, or otherwise ``throughput`` (in samples a second).

        ``grad_sqr`` and ``grad_var`` show how large a batch may be. They are the squared norm of the gradient, and the
        variance of its estimate at the class's own batch size. Give both with their signs. Their means since the last
        post are sent.

        Numbers may be numpy or torch scalars. A value that is no number, or out of range (such as that of an exploding
        gradient), is ignored. Only the newest call counts: if only an earlier call gave a number, the number is not
        sent.
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
        """The run's allocation, from the operator's last answer, otherwise from the pod's annotation, otherwise from
        its environment.

        The call waits at most a few seconds, until the first post has ended, because the operator is the first to know
        of a resize.
        """
        answered = None
        if self._reporter is not None:
            self._reporter.tried.wait(_FIRST_ANSWER_SECONDS)
            answered = self._reporter.allocation
        return answered or from_file(self._environment) or from_environment(self._environment)

    @property
    def batch(self) -> int | None:
        """The batch size (samples per step of all GPUs) that the job should use now. None if Charterer advises none.

        The advised size changes during training. Ranks learn of a change at different times, so use the size of rank 0.
        See docs/progress.md.
        """
        return None if self._reporter is None else self._reporter.batch

    def should_checkpoint(self) -> bool:
        """Whether it is time to save again, because the last ``save_atomically`` of this process is long enough ago.
        Before the first save, the start counts.

        On nodes that the cloud may take back, Charterer advises the interval. Otherwise the interval is half an hour.
        """
        return saves.due(None if self._reporter is None else self._reporter.checkpoint_every)

    def spent(self, part: str, seconds: float) -> None:
        """Add seconds that steps have spent in ``part``, one of ``steps.PARTS``. Raises ValueError for another part."""
        if part not in PARTS:
            raise ValueError(f"{part!r} is no part of a step; {', '.join(PARTS)} are")
        if self._reporter is not None:
            self._reporter.spent(part, seconds)

    @contextmanager
    def phase(self, part: str) -> Iterator[None]:
        """Measure the time of the block as ``part`` of the step: "compute", "sync" (waiting for other ranks) or "load"
        (waiting for input).

        Blocks must not be nested. "compute" needs no block, because it is the step's time without "sync" and "load".
        """
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.spent(part, time.perf_counter() - begin)

    def loading(self, batches: Iterable[_T]) -> Iterator[_T]:
        """Yield the same batches. The seconds of waiting for each batch count as the step's "load"."""
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
        """Report a step's ``grad_sqr`` and ``grad_var``, which ``report`` then does not need."""
        if self._reporter is not None:
            numbers = {"gradSqr": _number("gradSqr", float, sqr), "gradVar": _number("gradVar", float, var)}
            if None not in numbers.values():
                self._reporter.gradient(numbers)

    @property
    def members(self) -> MembersWatch | None:
        """The members of a job that is resized in place. None in a process that does not report."""
        return None if self._reporter is None else self._reporter.members

    def formed(self, generation: int | None, resize_seconds: float | None = None) -> None:
        """Report the group in which this process trains (None: in none), and for how many seconds training stood still
        before.
        """
        if self._reporter is not None:
            self._reporter.formed(generation, resize_seconds)

    def busy(self, busy: bool) -> None:
        """Report whether an interactive job (spec.interactive) uses its GPU now.

        If a GPU is idle for long, the operator releases it. A job that never calls this keeps its GPU.
        """
        if self._reporter is not None:
            self._reporter.busy(busy)

    def at_end(self, call: Callable[[], None]) -> None:
        """Register a call for the normal end of training, without an exception or a stop."""
        self._at_end.append(call)

    def ended(self) -> None:
        """Record the normal end of training."""
        for call in self._at_end:
            call()

    def close(self) -> None:
        """Post the last numbers within a few seconds."""
        if self._reporter is not None:
            self._reporter.close(_LAST_POST_SECONDS)
            self._reporter = None


_lock = threading.Lock()
_current: Session | None = None


def current() -> Session:
    """This process's session. It is made if it does not exist."""
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
    """See Session.batch. None outside Charterer."""
    return current().batch


def busy(busy: bool) -> None:
    """See Session.busy."""
    current().busy(busy)


def should_stop(agree: Callable[[bool], bool] | None = None) -> bool:
    """See Session.should_stop. With several ranks, use ``should_stop(agree=any_rank)``."""
    return current().should_stop(agree)


def should_checkpoint() -> bool:
    """See Session.should_checkpoint. Ranks may get different answers, so let rank 0 decide for all."""
    return current().should_checkpoint()


def allocation() -> Allocation | None:
    """See Session.allocation. None outside Charterer."""
    return current().allocation()


@contextmanager
def _sigterm(session: Session) -> Iterator[None]:
    """Within the block, SIGTERM sets the session's flag.

    Only the main thread can install the handler. Other threads do nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    process = os.getpid()

    def handle(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:  # the process was forked within the block: it ends, and its parent waits for it
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
    """Mark the block as the training run. Within the block SIGTERM does not kill the process. Instead ``should_stop()``
    becomes true.

    If the run was stopped, the process **ends with 143 where it leaves the block**. It does so even if the block ended
    normally or with an exception, because ranks fail if their peers stop first. The traceback of the exception is
    printed. No code after or around the block runs any more. The last numbers are posted, and ranks that agreed to stop
    wait for each other. Handlers of ``atexit`` run for at most ``exit_seconds``, or not at all if it is 0. The buffers
    of open files are written. Python's shut-down is skipped, because it takes seconds with a framework. In a forked
    process, and in any thread other than the main thread, SystemExit(143) is raised instead.

    If the run was not stopped, it ends as the block does.
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
                if isinstance(error, Exception):  # the exit code does not show the exception
                    traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)
                if os.getpid() == process and threading.current_thread() is threading.main_thread():
                    end_now(STOPPED, exit_seconds)
                raise SystemExit(STOPPED)
            if error is not None:
                raise error
    finally:
        with _lock:
            _current = None
