"""Measured in PyTorch without a change of the loop: gradient noise, and the seconds that ranks wait for each other.

The import needs no torch; the calls do.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from charterer_trainer.gradients import GradientNoise
from charterer_trainer.measuring import spent


def squared_norm(tensors: Iterable[Any]) -> Any:
    """The sum of the squares of all elements, as a tensor of one float32 on their device, without a copy of them."""
    torch = importlib.import_module("torch")
    norms = [torch.linalg.vector_norm(tensor.detach(), dtype=torch.float32) for tensor in tensors]
    return torch.stack(norms).square().sum()


class PassNoise:
    """Gradient noise of one process that adds up the gradients of several passes in a step.

    ``passed`` is called after each ``backward``, with the step, the number of samples of the pass, and whether it was
    the last. The gradient of the first pass is compared with that of all. The loss of each is weighted so that the mean
    over the step's ``batch`` comes out (``Batches.weight``, or 1/passes). With a single pass nothing is measured.
    """

    def __init__(self, parameters: Iterable[Any], noise: GradientNoise, batch: int) -> None:
        self._parameters = list(parameters)
        self._noise = noise
        self.batch = batch
        self._first: tuple[Any, int] | None = None

    def passed(self, step: int, samples: int, last: bool) -> None:
        """See the class. The gradients must have been zero before the first pass."""
        if not self._noise.due(step):
            return
        if self._first is None:
            self._first = None if last else (self._squared_norm(), samples)
        elif last:
            (small, first), self._first = self._first, None
            self._noise.add(small.item() * (self.batch / first) ** 2, first, self._squared_norm().item(), self.batch)

    def _squared_norm(self) -> Any:
        return squared_norm(parameter.grad for parameter in self._parameters if parameter.grad is not None)


Hook = Callable[[Any, Any], Any]


class DdpMeasurement:
    """What ``measure_ddp`` installed. ``batch``: samples of all ranks in a step; change it where the step's changes."""

    def __init__(self, batch: int, noise: GradientNoise | None, world: int, group: Any, hook: Hook, state: Any) -> None:
        self.batch = batch
        self._noise = noise if world > 1 else None
        self._world = world
        self._group = group
        self._hook = hook
        self._state = state
        self._step = 0
        self._local: list[Any] = []
        self._mean: list[Any] = []
        self._lock = threading.Lock()
        self._unread: tuple[Any, Any, list[Any], int, int] | None = None
        self._events: list[tuple[Any, Any]] = []

    def reduce(self, bucket: Any) -> Any:
        """DistributedDataParallel calls this for each bucket of gradients, with this rank's own in it."""
        measured = self._noise is not None and self._noise.due(self._step)
        if bucket.index() == 0:
            self._read()
        if measured:
            self._local.append(squared_norm([bucket.buffer()]))
        begin = time.perf_counter()
        event = _event(bucket.buffer()) if bucket.is_last() else None
        future = self._hook(self._state, bucket)
        if bucket.is_last():
            future = future.then(lambda done: self._waited(done, begin, event))
        if measured:
            mean = self._mean
            future = future.then(lambda done: self._reduced(done, mean))
        if bucket.is_last():
            if measured:
                self._share(bucket.index() + 1)
            self._step += 1
        return future

    def _waited(self, done: Any, begin: float, event: Any) -> Any:
        """From this rank's last gradient to the mean of all."""
        gradients = _value(done)
        if event is None:
            spent("sync", time.perf_counter() - begin)
        else:  # what a GPU's stream does is not done yet
            self._events.append((event, _event(gradients)))
        return gradients

    def _reduced(self, done: Any, mean: list[Any]) -> Any:
        gradients = _value(done)
        norm = squared_norm([gradients])
        with self._lock:
            mean.append(norm)
        return gradients

    def _share(self, buckets: int) -> None:
        """The mean over the ranks of their own squared norms: one number more to reduce, after the buckets."""
        torch = importlib.import_module("torch")
        local = torch.stack(self._local).sum() / self._world
        work = torch.distributed.all_reduce(local, group=self._group, async_op=True)
        self._unread = (work, local, self._mean, buckets, self.batch)
        self._local, self._mean = [], []

    def _read(self) -> None:
        """Last step's numbers, which are there by now: reading them waits for nothing."""
        while self._events and self._events[0][1].query():
            begin, end = self._events.pop(0)
            spent("sync", begin.elapsed_time(end) / 1000.0)
        if self._unread is not None and self._noise is not None:
            (work, local, mean, buckets, batch), self._unread = self._unread, None
            work.wait()
            with self._lock:
                if len(mean) == buckets:
                    self._noise.add(local.item(), batch / self._world, sum(each.item() for each in mean), batch)


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


def _event(tensor: Any) -> Any:
    """An instant of the GPU's stream that works on ``tensor``; None on a CPU."""
    if not tensor.is_cuda:
        return None
    event = importlib.import_module("torch").cuda.Event(enable_timing=True)
    event.record()
    return event
