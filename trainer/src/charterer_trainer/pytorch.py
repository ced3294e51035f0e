"""Measurements in PyTorch that need no change of the training loop: gradient noise, and seconds for which ranks wait
for each other.

The import does not need torch, but the calls do.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from charterer_trainer.gradients import GradientNoise, Interval
from charterer_trainer.measuring import spent


def squared_norm(tensors: Iterable[Any]) -> Any:
    """The sum of the squares of all elements, as a float32 scalar tensor on their device, without copying them."""
    torch = importlib.import_module("torch")
    norms = [torch.linalg.vector_norm(tensor.detach(), dtype=torch.float32) for tensor in tensors]
    return torch.stack(norms).square().sum()


class _Stopwatch:
    """Passes on the seconds between two instants (``_instant``) once both have passed. A GPU reaches an instant later
    than the Python code does.
    """

    def __init__(self, passed_on: Callable[[float], None]) -> None:
        self._passed_on = passed_on
        self._unread: list[tuple[Any, Any]] = []

    def add(self, begin: Any, end: Any) -> None:
        """Add an interval between two instants of the same device."""
        if isinstance(end, float):
            self._passed_on(end - begin)
        else:
            self._unread.append((begin, end))

    def read(self) -> None:
        """Pass on the intervals that are over by now, without waiting."""
        while self._unread and self._unread[0][1].query():
            begin, end = self._unread.pop(0)
            self._passed_on(begin.elapsed_time(end) / 1000.0)


class PassNoise:
    """Gradient noise of one process that accumulates the gradients of several passes in a step.

    Call ``passed`` after each ``backward`` with the step, the number of samples of the pass, and whether the pass was
    the last one. The gradient of the first pass is compared with the gradient of all passes. The loss of each pass must
    have a weight that yields the mean over the step's ``batch`` (``Batches.weight``, or 1/passes). If a step has a
    single pass, nothing is measured.
    """

    def __init__(self, parameters: Iterable[Any], noise: GradientNoise, batch: int) -> None:
        self._parameters = list(parameters)
        self._noise = noise
        self._interval = Interval(noise.every, noise.share)
        self._cost = _Stopwatch(self._interval.took)
        self.batch = batch
        self._first: tuple[Any, int] | None = None

    def passed(self, step: int, samples: int, last: bool) -> None:
        """See the class. The gradients must be zero before the first pass."""
        if not self._interval.due(step):
            return
        if self._first is None:
            self._first = None if last else (self._squared_norm(), samples)
        elif last:
            (small, first), self._first = self._first, None
            large = self._squared_norm().item()
            self._noise.add(small.item() * (self.batch / first) ** 2, first, large, self.batch)
            self._cost.read()
            self._interval.next_after(step, self._interval.wanted(step))

    def _squared_norm(self) -> Any:
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        begin = _instant(gradients[0])
        norm = squared_norm(gradients)
        self._cost.add(begin, _instant(norm))
        return norm


Hook = Callable[[Any, Any], Any]


class _Shared(NamedTuple):
    """Pending measurements of a step. ``work`` gathers ``gathered`` from all ranks. ``mean`` is that of the step's
    ``buckets``.
    """

    work: Any
    gathered: list[Any]
    mean: list[Any]
    buckets: int
    batch: int
    step: int


class DdpMeasurement:
    """The measurement that ``measure_ddp`` installed.

    ``batch``: samples of all ranks in a step. Update it if the number changes.
    """

    def __init__(self, batch: int, noise: GradientNoise | None, world: int, group: Any, hook: Hook, state: Any) -> None:
        self.batch = batch
        self._noise = noise if world > 1 else None
        self._world = world
        self._group = group
        self._hook = hook
        self._state = state
        self._interval = None if self._noise is None else Interval(self._noise.every, self._noise.share)
        self._step = 0
        self._local: list[Any] = []
        self._mean: list[Any] = []
        self._lock = threading.Lock()
        self._unread: _Shared | None = None
        self._waited = _Stopwatch(lambda seconds: spent("sync", seconds))
        self._cost = _Stopwatch(self._took)

    def reduce(self, bucket: Any) -> Any:
        """The communication hook: DistributedDataParallel calls it for each bucket of this rank's own gradients."""
        if bucket.index() == 0:
            self._read()
        measured = self._interval is not None and self._interval.due(self._step)
        if measured:
            self._local.append(self._squared_norm(bucket.buffer()))
        begin = _instant(bucket.buffer()) if bucket.is_last() else None
        future = self._hook(self._state, bucket)
        if bucket.is_last():  # measures from this rank's last gradient to the mean of all ranks
            future = future.then(lambda done: self._arrived(done, begin))
        if measured:
            mean = self._mean
            future = future.then(lambda done: self._reduced(done, mean))
        if bucket.is_last():
            if measured:
                self._share(bucket)
            self._step += 1
        return future

    def _arrived(self, done: Any, begin: Any) -> Any:
        gradients = _value(done)
        self._waited.add(begin, _instant(gradients))
        return gradients

    def _reduced(self, done: Any, mean: list[Any]) -> Any:
        gradients = _value(done)
        norm = self._squared_norm(gradients)
        with self._lock:
            mean.append(norm)
        return gradients

    def _squared_norm(self, gradients: Any) -> Any:
        begin = _instant(gradients)
        norm = squared_norm([gradients])
        self._cost.add(begin, _instant(norm))
        return norm

    def _took(self, seconds: float) -> None:
        if self._interval is not None:
            with self._lock:  # other threads reduce buckets
                self._interval.took(seconds)

    def _share(self, bucket: Any) -> None:
        """Gather two numbers from each rank: the squared norm of its gradient, and the number of steps until its next
        measurement.

        The cost of this step's measurement is known only after its buckets are reduced. So the cost of the previous
        measurement is used.
        """
        assert self._interval is not None
        torch = importlib.import_module("torch")
        with self._lock:
            wanted = self._interval.wanted(self._step)
        own = torch.stack([torch.stack(self._local).sum(), self._local[0].new_tensor(wanted)])
        gathered = [torch.empty_like(own) for _ in range(self._world)]
        work = torch.distributed.all_gather(gathered, own, group=self._group, async_op=True)
        self._unread = _Shared(work, gathered, self._mean, bucket.index() + 1, self.batch, self._step)
        self._local, self._mean = [], []

    def _read(self) -> None:
        """Read the numbers of the last measured step. They are available by now, so the call does not wait."""
        self._waited.read()
        self._cost.read()
        if self._unread is not None and self._noise is not None and self._interval is not None:
            shared, self._unread = self._unread, None
            shared.work.wait()
            ranks = [each.tolist() for each in shared.gathered]
            self._interval.next_after(shared.step, int(max(steps for _, steps in ranks)))
            local = sum(norm for norm, _ in ranks) / self._world
            with self._lock:
                mean = [each.item() for each in shared.mean]
            if len(mean) == shared.buckets:
                self._noise.add(local, shared.batch / self._world, sum(mean), shared.batch)


def measure_ddp(
    model: Any, batch: int, noise: GradientNoise | None = None, *, hook: Hook | None = None, state: Any = None
) -> DdpMeasurement:
    """Measure a DistributedDataParallel model: the seconds of waiting for other ranks, and if ``noise`` is given,
    gradient noise.

    ``batch``: samples of all ranks in a step, in equal shares. A model can have only one communication hook, which this
    function sets. Pass your own hook as ``hook`` with its ``state``. Each rank must make this call. The noise is
    measured between ranks, so with a single rank it cannot be measured (use PassNoise).
    """
    hooks = importlib.import_module("torch.distributed.algorithms.ddp_comm_hooks.default_hooks")
    group = model.process_group
    measurement = DdpMeasurement(
        batch, noise, group.size(), group, hook or hooks.allreduce_hook, group if hook is None else state
    )
    # torch refuses a hook with other annotations
    model.register_comm_hook(None, lambda state, bucket: measurement.reduce(bucket))
    return measurement


def _value(done: Any) -> Any:
    value = done.value()
    return value[0] if isinstance(value, (list, tuple)) else value


def _instant(tensor: Any) -> Any:
    """The time now in seconds, or for a GPU an event in its stream that works on ``tensor``."""
    if not tensor.is_cuda:
        return time.perf_counter()
    event = importlib.import_module("torch").cuda.Event(enable_timing=True)
    event.record()
    return event
