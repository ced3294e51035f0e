"""The true behaviour of training. A planner sees it only through reports.

An application goes through epochs. On k GPUs of a type with a total batch size B it makes statistical progress at

    throughput(k, B) · efficiency(B, epoch)        (Pollux, OSDI'21, §3)

so an epoch's time depends on GPU type, width and batch size. Progress in this module is the fraction of the whole job
that is done, which means the same on every GPU type.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Protocol

from charterer.domain.ids import ClassId

GPU_TYPE = "gpu"
"""The name of the GPU type if there is only one and nobody names it."""


@dataclass(frozen=True, slots=True)
class TrainerMeasurement:
    """A trainer's measurement: seconds of a step, and squared norm and variance of the gradient (Pollux, §3.1)."""

    batch: int
    step_seconds: float
    grad_sqr: float
    grad_var: float


class BatchMeasurements(Protocol):
    """Measurements of an application on one GPU type, at every width and total batch size."""

    @property
    def own_batch(self) -> int:
        """B₀: the total batch size of the application's own recipe, the smallest one."""

    @property
    def largest_batch(self) -> int:
        """The largest total batch size."""

    @property
    def largest_local(self) -> int:
        """The largest batch that fits a GPU. A larger batch is accumulated over several passes."""

    @property
    def smallest_local(self) -> int:
        """The smallest batch for one GPU."""

    @property
    def work(self) -> float:
        """Statistical progress of the whole job, in steps at the own batch size."""

    def measurement(self, epoch: int, gpus: int, batch: int) -> TrainerMeasurement | None:
        """The measurement with that batch size, rounded to a feasible size. None if there is no such measurement."""

    def rate(self, epoch: int, gpus: int, batch: int) -> float | None:
        """Fraction of the whole job that is done in a second with that batch size, or None if the job cannot run so."""


@dataclass(frozen=True, slots=True)
class SingleBatch:
    """``BatchMeasurements`` of an application with a single batch size and a known speed.

    ``rates``: the rates of the Application on one GPU type. ``work``: the whole job in steps.
    """

    rates: Sequence[Mapping[int, float]]
    work: float
    own_batch: int = 1 << 16
    largest_batch: int = 1 << 16
    largest_local: int = 1 << 16
    smallest_local: int = 1

    def measurement(self, epoch: int, gpus: int, batch: int) -> TrainerMeasurement | None:
        """The measurement on that width.

        The gradient's statistics are 1, because they do not matter with one batch size.
        """
        rate = self.rates[epoch].get(gpus)
        return TrainerMeasurement(self.own_batch, 1.0 / (self.work * rate), 1.0, 1.0) if rate else None

    def rate(self, epoch: int, gpus: int, batch: int) -> float | None:
        """The rate on that width."""
        return self.rates[epoch].get(gpus)


class WidthRates:
    """The time that training takes on one width.

    ``ends[e]``: the fraction of the job that is done at the end of epoch e.
    ``rates[e]``: the fraction of the whole job that is done in a second of epoch e.
    """

    __slots__ = ("_ends", "_last", "_minus", "_rates", "_until_end")

    def __init__(self, ends: Sequence[float], rates: Sequence[float]) -> None:
        times = [(end - begin) / rate for begin, end, rate in zip((0.0, *ends), ends, rates, strict=False)]
        self._ends = ends
        self._last = len(ends) - 1
        self._rates = rates
        self._until_end = [*list(accumulate(reversed(times)))[::-1], 0.0]
        self._minus = [-seconds for seconds in self._until_end]

    def seconds_left(self, done: float) -> float:
        """Seconds to the end from the fraction ``done`` on."""
        epoch = bisect_right(self._ends, done, 0, self._last)
        return (self._ends[epoch] - done) / self._rates[epoch] + self._until_end[epoch + 1]

    def after(self, done: float, seconds: float) -> float:
        """The fraction that is done ``seconds`` after the fraction ``done``. It is at most 1."""
        epoch = bisect_right(self._ends, done, 0, self._last)
        left = (self._ends[epoch] - done) / self._rates[epoch] + self._until_end[epoch + 1] - seconds
        if left <= 0.0:
            return 1.0
        epoch = bisect_right(self._minus, -left, epoch + 1) - 1  # the first epoch at whose end less time is left
        return self._ends[epoch] - (left - self._until_end[epoch + 1]) * self._rates[epoch]

    def before(self, done: float, seconds: float) -> float:
        """The fraction that was done ``seconds`` before the fraction ``done``. It is at least 0."""
        left, whole = self.seconds_left(done) + seconds, self._until_end[0]
        return 0.0 if left >= whole else self.after(0.0, whole - left)


@dataclass(frozen=True)
class Application:
    """A training application.

    ``ends[e]``: the fraction of the job that is done at the end of epoch e. It is 1 for the last epoch.
    ``rates[t][e][k]``: the fraction of the job done in a second of epoch e on k GPUs of type t, at the best batch size.
    The application cannot run on types and widths without a rate.
    ``measurements``: for each GPU type, measurements at other batch sizes than the best one. Empty if other batch sizes
    do not matter.
    ``variants``: other ways to do the same job, by name.
    """

    name: str
    ends: Sequence[float]
    rates: Mapping[str, Sequence[Mapping[int, float]]]
    measurements: Mapping[str, BatchMeasurements] = field(default_factory=dict)
    variants: Mapping[str, Application] = field(default_factory=dict)
    _width_rates: dict[tuple[str, int, int], WidthRates] = field(default_factory=dict, repr=False, compare=False)

    def variant(self, name: str) -> Application:
        """The variant of that name, or the application itself for the empty name."""
        return self.variants[name] if name else self

    @cached_property
    def gpu_types(self) -> tuple[str, ...]:
        """The GPU types on which it can run, ascending."""
        return tuple(sorted(self.rates))

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """The numbers of GPUs on which it can run, of any type, ascending."""
        return tuple(sorted({gpus for epochs in self.rates.values() for gpus in epochs[0]}))

    @property
    def reference_seconds(self) -> float:
        """Seconds that the whole job would take at the speed of its first epoch, on the fewest GPUs of its first GPU
        type.
        """
        rates = next(iter(self.rates.values()))[0]
        return 1.0 / rates[min(rates)]

    @property
    def work(self) -> float:
        """The whole job in steps at the own batch size. The application must have measurements."""
        return next(iter(self.measurements.values())).work

    def runs_on(self, gpu_type: str, gpus: int) -> bool:
        """Whether it can run on that width of that type."""
        return gpu_type in self.rates and gpus in self.rates[gpu_type][0]

    def width_rates(self, gpu_type: str, gpus: int, batch: int = 0) -> WidthRates:
        """Training on ``gpus`` GPUs of a type with that total batch size. 0 means the best batch size of each epoch.

        Raises ValueError if the application cannot run so.
        """
        width_rates = self._width_rates.get((gpu_type, gpus, batch))
        if width_rates is None:
            if batch:
                rates = self._rates_at(gpu_type, gpus, batch)
            else:
                rates = [rates[gpus] for rates in self.rates.get(gpu_type, ()) if gpus in rates]
            if len(rates) < len(self.ends):
                how = f"batch size {batch} was not measured on" if batch else "it cannot run on"
                raise ValueError(f"{self.name}: {how} {gpus} GPUs of type {gpu_type!r}")
            width_rates = self._width_rates[gpu_type, gpus, batch] = WidthRates(self.ends, rates)
        return width_rates

    def epoch(self, done: float) -> int:
        """The epoch that is under way at the fraction ``done``."""
        return bisect_right(self.ends, done, 0, len(self.ends) - 1)

    def seconds_left(self, done: float, gpu_type: str, gpus: int) -> float:
        """Seconds to the end on ``gpus`` GPUs of a type at the best batch sizes. Raises ValueError if it cannot run
        so.
        """
        return self.width_rates(gpu_type, gpus).seconds_left(done)

    def _rates_at(self, gpu_type: str, gpus: int, batch: int) -> list[float]:
        """The rate of each epoch. If the application cannot run so, there are fewer rates than epochs."""
        measurements = self.measurements.get(gpu_type)
        epochs = (
            () if measurements is None else (measurements.rate(epoch, gpus, batch) for epoch in range(len(self.ends)))
        )
        return [rate for rate in epochs if rate is not None]


def variant_class(class_id: ClassId, variant: str) -> ClassId:
    """The class of a variant of a class's jobs, or the class itself for the empty name."""
    return ClassId(class_id.namespace, f"{class_id.name}.{variant}") if variant else class_id


def with_variants(applications: Mapping[ClassId, Application]) -> Mapping[ClassId, Application]:
    """The applications by class, with the variants of each under their own classes."""
    return {
        variant_class(class_id, name): application.variant(name)
        for class_id, application in applications.items()
        for name in ("", *application.variants)
    }


def with_step_times(application: Application, work: float) -> Application:
    """The application with one batch size and ``work`` steps, so that a trainer can report its seconds per step."""
    measurements = {gpu_type: SingleBatch(rates, work) for gpu_type, rates in application.rates.items()}
    variants = {name: with_step_times(variant, work) for name, variant in application.variants.items()}
    return Application(application.name, application.ends, application.rates, measurements, variants)


def joined(applications: Sequence[Application]) -> Application:
    """One application, made of several that differ only in the GPU types on which they can run."""
    rates = {gpu_type: rates for application in applications for gpu_type, rates in application.rates.items()}
    measured = {gpu_type: made for application in applications for gpu_type, made in application.measurements.items()}
    return Application(applications[0].name, applications[0].ends, rates, measured)


def application_from_speeds(
    name: str, seconds: Mapping[int, float], widths: Iterable[int] | None = None, gpu_type: str = GPU_TYPE
) -> Application:
    """An application of a single epoch that takes ``seconds[k]`` on k GPUs of a type.

    ``widths``: the widths on which the application can run. None means the widths in ``seconds``. Between two widths in
    ``seconds`` the speed is linear. Beyond them the application cannot run.
    """
    given = sorted(seconds)
    rates: dict[int, float] = {}
    for width in given if widths is None else sorted(widths):
        at = bisect_left(given, width)
        if at < len(given) and given[at] == width:
            rates[width] = 1.0 / seconds[width]
        elif 0 < at < len(given):
            low, high = given[at - 1], given[at]
            fraction = (width - low) / (high - low)
            rates[width] = (1.0 - fraction) / seconds[low] + fraction / seconds[high]
    return Application(name, (1.0,), {gpu_type: (rates,)})
