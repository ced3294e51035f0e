"""Measured in PyTorch without a change of the loop: gradient noise, and the seconds that ranks wait for each other.

The import needs no torch; the calls do.
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
    """The sum of the squares of all elements, as a tensor of one float32 on their device, without a copy of them."""
    torch = importlib.import_module("torch")
    norms = [torch.linalg.vector_norm(tensor.detach(), dtype=torch.float32) for tensor in tensors]
    return torch.stack(norms).square().sum()


class _Stopwatch:
    """Passes on the seconds between two instants (``_instant``) once they are known: on a GPU, when it is there."""

    def __init__(self, passed_on: Callable[[float], None]) -> None:
        self._passed_on = passed_on
        self._unread: list[tuple[Any, Any]] = []

    def add(self, begin: Any, end: Any) -> None:
        """From one instant to another of the same device."""
        if isinstance(end, float):
            self._passed_on(end - begin)
        else:
            self._unread.append((begin, end))

    def read(self) -> None:
        """What is over by now; it waits for nothing."""
        while self._unread and self._unread[0][1].query():
            begin, end = self._unread.pop(0)
            self._passed_on(begin.elapsed_time(end) / 1000.0)


class PassNoise:
    """Gradient noise of one process that adds up the gradients of several passes in a step.

    ``passed`` is called after each ``backward``, with the step, the number of samples of the pass, and whether it was
    the last. The gradient of the first pass is compared with that of all. The loss of each is weighted so that the mean
    over the step's ``batch`` comes out (``Batches.weight``, or 1/passes). With a single pass nothing is measured.
    """

    def __init__(self, parameters: Iterable[Any], noise: GradientNoise, batch: int) -> None:
        self._parameters = list(parameters)
        self._noise = noise
        self._interval = Interval(noise.every, noise.share)
        self._cost = _Stopwatch(self._interval.took)
        self.batch = batch
        self._first: tuple[Any, int] | None = None

    def passed(self, step: int, samples: int, last: bool) -> None:
        """See the class. The gradients must have been zero before the first pass."""
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
    """What a step has measured, on its way: ``gathered`` of all ranks by ``work``, ``mean`` of its ``buckets``."""

    work: Any
    gathered: list[Any]
    mean: list[Any]
    buckets: int
    batch: int
    step: int


class DdpMeasurement:
    """What ``measure_ddp`` installed. ``batch``: samples of all ranks in a step; change it where the step's changes."""

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
        """DistributedDataParallel calls this for each bucket of gradients, with this rank's own in it."""
        if bucket.index() == 0:
            self._read()
        measured = self._interval is not None and self._interval.due(self._step)
        if measured:
            self._local.append(self._squared_norm(bucket.buffer()))
        begin = _instant(bucket.buffer()) if bucket.is_last() else None
        future = self._hook(self._state, bucket)
        if bucket.is_last():  # from this rank's last gradient to the mean of all
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
            with self._lock:  # buckets are reduced in other threads
                self._interval.took(seconds)

    def _share(self, bucket: Any) -> None:
        """Each rank's own squared norm, and how long it would wait for the next: two numbers to gather at the end.

        What this step's measuring costs is known when its buckets are reduced; so the last one's cost counts.
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
        """Last step's numbers, which are there by now: reading them waits for nothing."""
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
    """Measure a DistributedDataParallel model: seconds of waiting for other ranks, and gradient noise if asked.

    ``batch``: samples of all ranks in a step, in shares of equal size. A model has one communication hook, and this is
    it: give your own as ``hook`` with its ``state``. Each rank has to call it. The noise is that between ranks, so
    with one rank none is measured (use PassNoise).
    """
    hooks = importlib.import_module("torch.distributed.algorithms.ddp_comm_hooks.default_hooks")
    group = model.process_group
    measurement = DdpMeasurement(
        batch, noise, group.size(), group, hook or hooks.allreduce_hook, group if hook is None else state
    )
    model.register_comm_hook(None, lambda state, bucket: measurement.reduce(bucket))  # it refuses other annotations
    return measurement


def _value(done: Any) -> Any:
    value = done.value()
    return value[0] if isinstance(value, (list, tuple)) else value


def _instant(tensor: Any) -> Any:
    """Now, in seconds; or an instant of the GPU's stream that works on ``tensor``."""
    if not tensor.is_cuda:
        return time.perf_counter()
    event = importlib.import_module("torch").cuda.Event(enable_timing=True)
    event.record()
    return event
