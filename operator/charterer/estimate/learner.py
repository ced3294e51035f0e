"""The learner takes reports of all classes and says what is known of each. Mutable, deterministic, without a clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, inf, log, sqrt

from charterer.domain.ids import ClassId
from charterer.domain.profile import MOST_PAIRS, NO_FACTS, BatchTerms, CurveSource, ModelFacts, PairSpeed
from charterer.estimate.cells import MEMORY_REPORTS, BatchCell, CellEffect, StepTimes
from charterer.estimate.class_state import PRIOR_WORK, SIZE_SPREAD, ClassState, Interval, PairKey
from charterer.estimate.curves import expected_time, near_concave, phase_segments
from charterer.estimate.fitting import fit, refit
from charterer.estimate.learned import LIKELY, MOST_WIDTHS, Entry, Learned, LearnedPhase
from charterer.estimate.noise import Noise, bin_at, gain, log_noise, noise_growth
from charterer.estimate.observation import Configuration, Observation, Shape, split
from charterer.estimate.priors import (
    MeasuredLink,
    MeasuredModel,
    Told,
    estimate_misfit,
    in_data_sheets,
    measured_model,
    noise_prior,
    on_type,
    predicted_seconds,
    sibling_prior,
    sync_priors,
    unknowns_prior,
    usual_ratio,
    vote,
    with_model,
)
from charterer.estimate.throughput import LinearPrior, Misfit, ModelPrediction, Normal, StepTimeFit, Unknown
from charterer.gpu_types import whole_type

# What the statistics of other classes suggest for one class. ``priors`` says how far each class is believed.


def usual_work(own: ClassState, others: Iterable[ClassState]) -> float:
    """Geometric mean of the other classes' mean work, or the class's own mean if there are no other classes."""
    sizes = [(state.class_id, state.sizes.latest) for state in others if state.sizes.latest]
    told = Told.to(own.class_id, [(name, log(sum(works) / len(works))) for name, works in sizes])
    logs = [*told.own, *[vote(values, (log(PRIOR_WORK), SIZE_SPREAD**2)) for values in told.others]]
    if logs:
        return exp(sum(logs) / len(logs))
    works = own.sizes.latest
    return sum(works) / len(works) if works else PRIOR_WORK


def measured_models(others: Iterable[ClassState]) -> Iterable[MeasuredModel]:
    """The other classes whose models were described, once for each GPU type on which they ran."""
    for state in others:
        for gpu_type, times in state.times.items():
            if times.fit is not None:
                yield measured_model(state.class_id, state.model, gpu_type, times.fit)


def speed_ratios(listener: ClassId, others: Iterable[ClassState], gpu_type: str, sibling: str) -> Sequence[float]:
    """log(seconds on the type / seconds on the sibling) of the other classes that ran on both."""
    ratios = []
    for state in others:
        here, there = state.times.get(gpu_type), state.times.get(sibling)
        if here and there and here.fit and there.fit:
            ratios.append((state.class_id, here.fit.unknowns[Unknown.COMPUTE] - there.fit.unknowns[Unknown.COMPUTE]))
    told, usual = Told.to(listener, ratios), usual_ratio(gpu_type, sibling)
    return [*told.own, *[vote(values, usual) for values in told.others]]


# Goodput is statistical progress per second, in steps at the own batch size. The best batch size has the highest
# goodput.
#
# goodput(k, B) = gain(B / B₀) / T(k, B) (Pollux, OSDI'21, §3: throughput × statistical efficiency)


_GRID = 1.06
"""Ratio between neighbouring batch sizes. Goodput is flat around the best batch size except for kinks of real step
times. With the kinks, a ratio of 1.25 loses 0.7 % of all time and money, and a ratio of 1.12 loses 0.4 %."""


@dataclass(frozen=True, slots=True)
class BatchCandidate:
    """One way to do a step on a shape, with all its properties that do not depend on the phase.

    ``model``: log seconds of a step, without the cell's own effect.
    ``own``: the cell's own effect, which changes with the reports.
    ``scale``: B/B₀.
    ``noise_growth``: the result of the function ``noise_growth`` for that scale.
    """

    where: Configuration
    model: ModelPrediction
    own: CellEffect
    scale: float
    noise_growth: float


@dataclass(frozen=True, slots=True)
class BatchChoice:
    """The best batch on a shape: its configuration, log goodput (mean and variance), and log seconds of a step."""

    where: Configuration
    log_goodput: float
    variance: float
    log_seconds: float


def configurations(terms: BatchTerms, shape: Shape) -> tuple[Configuration, ...]:
    """Ways to do a step with a batch between the own and the largest batch size: single passes of several sizes,
    several full passes, and the largest batch.

    A batch is rounded up to whole samples per GPU, so even the own batch may become larger than the largest batch.
    The result is empty if even the least batch per GPU makes a total batch that is too large.
    """
    least = max(terms.own, terms.smallest_per_gpu * shape.gpus)
    most = terms.largest
    ways: dict[Configuration, None] = {}

    def add(batch: float) -> None:
        where = split(terms, shape, round(batch))
        if where.local >= terms.smallest_per_gpu and least <= where.batch <= most:
            ways[where] = None

    batch, single_pass = float(least), min(most, shape.gpus * terms.largest_per_gpu)
    while batch < single_pass:
        add(batch)
        batch *= _GRID
    full = 1.0
    while (batch := shape.gpus * terms.largest_per_gpu * round(full)) <= most:
        add(batch)
        full = max(full * _GRID, full + 1.0)
    add(least)
    passes = -(-most // (shape.gpus * terms.largest_per_gpu))
    add(most // (shape.gpus * passes) * shape.gpus * passes)
    if not ways and terms.own >= terms.smallest_per_gpu * shape.gpus:
        ways[split(terms, shape, terms.own)] = None
    return tuple(sorted(ways))


def candidates(fit: StepTimeFit, terms: BatchTerms, shape: Shape) -> tuple[BatchCandidate, ...]:
    """The candidates for all configurations of a shape."""
    ways = configurations(terms, shape)
    scales = [where.batch / terms.own for where in ways]
    return tuple(
        BatchCandidate(where, model, own, scale, noise_growth(scale))
        for where, model, own, scale in zip(ways, fit.by_model(ways), fit.own_effects(ways), scales, strict=True)
    )


def probes(options: Sequence[BatchCandidate]) -> Sequence[Configuration]:
    """The configurations with which a new width is tried first: the smallest and the largest single pass.

    Both together show how long a step with a batch size in between takes, and each further pass takes as long as the
    computing of the larger pass. One batch size alone, however often it ran, cannot show which part of a step depends
    on the batch size.
    """
    single = [option.where for option in options if option.where.passes == 1]
    return (single[0], single[-1]) if single else ()


def best_batch(
    fit: StepTimeFit, noise: Noise, options: Sequence[BatchCandidate], optimism: float = 0.0
) -> BatchChoice | None:
    """The candidate with the highest expected goodput; None if there are no candidates.

    ``optimism``: number of standard deviations by which each step time counts as shorter. Uncertainty that all batch
    sizes share must favour none of them. So only the variance beyond that of the batch size with the least variance
    counts. The goodput that is returned is the expected goodput, without optimism.
    """
    best, most = None, 0.0
    level, tilt = noise.level, noise.tilt
    hope = 0.0
    for option, hoped in zip(options, _hopes(fit, options, optimism), strict=True):
        rate = exp(hoped - option.own.mean - option.model.mean)
        goodput = gain(exp(level + tilt * option.noise_growth), option.scale) * rate
        if goodput > most:
            best, most, hope = option, goodput, hoped
    if best is None:
        return None
    variance = fit.variance(best.model, best.own) + noise.gain_variance(best.scale)
    return BatchChoice(best.where, log(most) - hope, variance, best.model.mean + best.own.mean)


def _hopes(fit: StepTimeFit, options: Sequence[BatchCandidate], optimism: float) -> Sequence[float]:
    """For each candidate, the amount that optimism subtracts from its log seconds."""
    if not optimism:
        return [0.0] * len(options)
    variances = [fit.variance(option.model, option.own) for option in options]
    common = min(variances, default=0.0)
    return [optimism * sqrt(variance - common) for variance in variances]


DEFAULT_NODE_GPUS = 8
"""Number of GPUs of a node, if it was not set and no pod had more GPUs. It is that of the usual large node."""
NOISE_GROWN = 1.1
"""Ratio by which the number of a class's gradient reports must have grown before its noise curve is computed
again."""
NOISE_REPORTS = 50
"""Number of new gradient reports that always suffices for a new noise curve. It is the number of reports that a bin
remembers."""
SURPRISE = 2.0
"""Distance of the mean of new gradient reports from the curve, in standard deviations of that mean, at which the
curve is computed again at once: the 95 % interval. Otherwise, if a learning rate drops and noise doubles within an
epoch, the curve would be 50 reports late."""
PRIOR_GROWN = 1.1
"""Ratio by which the number of fits must have grown before classes borrow again from other classes."""
PROBED_REPORTS = 4
"""Number of reports after which a width is no longer probed. Without this limit probing might never end, because a
trainer may round the advised batch sizes to other sizes."""
BATCH_OPTIMISM = 1.0
"""Number of standard deviations of optimism. With fewer, a better batch size may never be tried. With more, too many
bad batch sizes are tried."""


class Learner:
    """All that reports have taught so far. Copies (``copy.deepcopy``) and pickles are independent of each other.

    ``classes``: the declared batch sizes of each class.
    ``node_gpus``: for each GPU type, the number of GPUs of a node. For other types, the most GPUs that a pod ever had
    are used.
    ``model_misfit``: how far a true curve differs from its concave fit (standard deviation of its logarithm). At 0,
    curves are concave and non-decreasing, whatever was measured. Above 0, values that were measured often enough
    replace the concave fit.
    """

    def __init__(
        self,
        classes: Mapping[ClassId, BatchTerms],
        node_gpus: Mapping[str, int] | None = None,
        model_misfit: float = 0.0,
    ) -> None:
        self._model_misfit = model_misfit
        self._classes = {class_id: ClassState(class_id, terms) for class_id, terms in classes.items()}
        self._node_gpus = dict(node_gpus or {})
        self._seen_gpus: dict[str, int] = dict.fromkeys(self._node_gpus, 1)
        self._fits = 0
        self._prior_generation = 0

    def declare(self, class_id: ClassId, terms: BatchTerms) -> None:
        """Add a class, or change its batch sizes. If they change, all that was learned about the class is dropped."""
        state = self._classes.get(class_id)
        if state is None or state.terms != terms:
            self._classes[class_id] = ClassState(class_id, terms, model=NO_FACTS if state is None else state.model)

    def describe(self, class_id: ClassId, model: ModelFacts) -> None:
        """Set the owner's description of a class's model. The priors of this class and of similar classes follow from
        the description."""
        state = self._class(class_id)
        if state.model != model:
            state.model = model
            self._note_facts()

    def declared(self, class_id: ClassId) -> BatchTerms | None:
        """The terms of the class; None if it is not declared."""
        state = self._classes.get(class_id)
        return None if state is None else state.terms

    def forget(self, class_id: ClassId) -> None:
        """Remove the class. What other classes have borrowed from it stays with them."""
        self._classes.pop(class_id, None)

    def set_node_gpus(self, gpu_type: str, gpus: int) -> None:
        """Set the number of GPUs on a node of a type."""
        if self._node_gpus.get(gpu_type) != gpus:
            self._node_gpus[gpu_type] = gpus
            self._seen_gpus.setdefault(gpu_type, 1)
            for state in self._classes.values():
                state.candidates.clear()
                state.profiles.clear()

    def widths_run(self, class_id: ClassId) -> Mapping[str, tuple[int, ...]]:
        """The numbers of GPUs that the class has run on, ascending, by GPU type."""
        return {
            gpu_type: tuple(sorted({where.shape.gpus for where in times.cells}))
            for gpu_type, times in self._class(class_id).times.items()
        }

    def report(self, report: Observation) -> None:
        """Learn from a report.

        Raises ValueError with the reason if the report is unusable. Meaningless gradient figures are ignored.
        """
        state = self._class(report.class_id)
        if fault := report.fault():
            raise ValueError(fault)
        terms = state.terms
        if report.gpu_type not in state.times:
            state.times[report.gpu_type] = StepTimes(terms.largest_per_gpu)
        state.times[report.gpu_type].add(split(terms, report.shape, report.batch), report.step_seconds)
        self._note_shape(report.gpu_type, report.shape)
        if report.grad_sqr is not None and report.grad_var is not None:
            growth = noise_growth(report.batch / terms.own)
            value = log_noise(report.grad_sqr, report.grad_var, terms.largest / terms.own)
            if value is not None:
                state.noise.add(report.fraction, growth, value)
                if state.curve:
                    foreseen = state.curve[bin_at(report.fraction)]
                    state.curve_off += value - foreseen.level - foreseen.tilt * growth

    def state(self, class_id: ClassId) -> ClassState:
        """The statistics of one class, for reading. ``restore`` takes them back."""
        return self._class(class_id)

    def restore(self, state: ClassState) -> None:
        """Take in statistics of a class that were kept elsewhere. The class's fits are computed again."""
        self._classes[state.class_id] = state
        for gpu_type, times in state.times.items():
            for where in times.cells:
                self._note_shape(gpu_type, where.shape)
        self._note_facts()

    def _note_facts(self) -> None:
        """Note that the facts have changed from which classes borrow from each other."""
        self._fits += 1
        self._prior_generation = self._fits

    def completed(self, class_id: ClassId, work: float) -> None:
        """Learn the size of a completed job: ``work`` is statistical progress in own-batch steps."""
        self._class(class_id).sizes.completed(work)

    def profile(self, class_id: ClassId, widths: Sequence[int], gpu_types: Sequence[str] | None = None) -> Learned:
        """The class's profile at those numbers of GPUs, ascending.

        ``gpu_types``: GPU types for which curves are wanted. None stands for the types on which the class ran, or if
        it never ran, for the types on which any class ran. Raises ValueError if ``widths`` do not ascend from 1 or
        are more than MOST_WIDTHS.
        """
        if not 1 <= len(widths) <= MOST_WIDTHS or any(a >= b for a, b in zip((0, *widths), widths, strict=False)):
            raise ValueError(f"widths {list(widths)}: give 1 to {MOST_WIDTHS} ascending numbers of GPUs")
        state = self._class(class_id)
        types = tuple(gpu_types) if gpu_types is not None else self._types(state)
        fits = {gpu_type: self._fit(class_id, gpu_type) for gpu_type in types}
        curve = self._noise_curve(class_id)
        key = (tuple(widths), types)
        version = state.version if state.best is not None else self._prior_generation
        last = state.profiles.get(key)
        if last is None or last[0] != version:
            last = version, self._build(state, widths, fits, curve)
            state.profiles[key] = last
        return last[1]

    def batch(self, class_id: ClassId, gpu_type: str, gpus: int, fraction: float) -> int:
        """The total batch size to train with now. ``fraction``: the fraction of the job's work that is done.

        A width on which the class never ran is probed first. After that, a batch size is tried that may be better
        than it is known to be. If it turns out worse, only a few steps were a little slower. This is optimism in the
        face of uncertainty (Auer, Cesa-Bianchi and Fischer 2002).
        """
        state = self._class(class_id)
        step_fit = self._fit(class_id, gpu_type)
        options = self._candidates(state, gpu_type, gpus, step_fit)
        cells = state.times[gpu_type].cells if gpu_type in state.times else {}
        for where in probes(options):
            if where not in cells:
                reports = sum(cell.count for other, cell in cells.items() if other.shape == where.shape)
                if reports < PROBED_REPORTS:
                    return where.batch
        noise = self._noise_curve(class_id)[bin_at(fraction)]
        choice = best_batch(step_fit, noise, options, BATCH_OPTIMISM)
        return state.terms.own if choice is None else choice.where.batch

    def step_times(self, class_id: ClassId, gpu_type: str) -> StepTimeFit:
        """The fitted model of the class's step times on a GPU type. If the class never ran on that type, only priors
        determine the model."""
        self._class(class_id)
        return self._fit(class_id, gpu_type)

    def work(self, class_id: ClassId) -> Interval:
        """Mean work of a job of the class, in own-batch steps."""
        return self._class(class_id).sizes.mean(usual_work(self._classes[class_id], self._others(class_id)))

    def _class(self, class_id: ClassId) -> ClassState:
        state = self._classes.get(class_id)
        if state is None:
            raise ValueError(f"class {class_id} is not declared: declare its batch sizes first")
        return state

    def _others(self, class_id: ClassId) -> list[ClassState]:
        return [state for name, state in self._classes.items() if name != class_id]

    def _note_shape(self, gpu_type: str, shape: Shape) -> None:
        per_node = -(-shape.gpus // shape.nodes)
        self._seen_gpus[gpu_type] = max(self._seen_gpus.get(gpu_type, 1), per_node)

    def _types(self, state: ClassState) -> tuple[str, ...]:
        return tuple(sorted(state.times or self._seen_gpus))

    def _shape(self, gpu_type: str, gpus: int) -> Shape:
        per_node = self._node_gpus.get(gpu_type) or max(self._seen_gpus.get(gpu_type, 1), DEFAULT_NODE_GPUS)
        return Shape(-(-gpus // per_node), gpus)

    def _fit(self, class_id: ClassId, gpu_type: str) -> StepTimeFit:
        """The class's fit on a GPU type. If the class never ran on that type, only priors determine the fit."""
        state = self._classes[class_id]
        times = state.times.get(gpu_type)
        if times is None:
            return self._borrowed(class_id, gpu_type)
        if times.fit is not None and not times.outgrown:
            return times.fit
        result = refit(times, *self._prior(class_id, gpu_type))
        self._note_progress(state)
        return result

    def _note_progress(self, state: ClassState) -> None:
        """Note that more is known about a class, so that other classes can borrow from it."""
        state.version += 1
        self._fits += 1
        if self._fits >= max(PRIOR_GROWN * self._prior_generation, self._prior_generation + 1):
            self._prior_generation = self._fits

    def _borrowed(self, class_id: ClassId, gpu_type: str) -> StepTimeFit:
        """The fit on a GPU type on which the class never ran."""
        state = self._classes[class_id]
        last = state.borrowed.get(gpu_type)
        if last is None or last[0] != self._prior_generation:
            prior, misfit, sums = self._prior(class_id, gpu_type)
            empty = fit({}, state.terms.largest_per_gpu, prior, misfit, 1.0, sums=sums)
            last = self._prior_generation, empty
            state.borrowed[gpu_type] = last
        return last[1]

    def _prior(
        self, class_id: ClassId, gpu_type: str
    ) -> tuple[tuple[Normal, ...], Misfit, Mapping[Unknown, LinearPrior]]:
        """The priors of the unknowns, of the misfit and of sums of unknowns, from other classes and from the class's
        other GPU types."""
        others = self._others(class_id)
        best = ((state.class_id, state.best) for state in others)
        known_best = ((name, times.fit) for name, times in best if times is not None and times.fit is not None)
        unknowns = unknowns_prior(Told.to(class_id, known_best))
        siblings = [
            (times.reports, name, times.fit, speed_ratios(class_id, others, gpu_type, name))
            for name, times in self._classes[class_id].times.items()
            if name != gpu_type and times.fit is not None
        ]
        if siblings:
            # A GPU type without a data sheet says next to nothing about another type, however often the class ran on
            # it.
            _, name, sibling, ratios = max(
                siblings, key=lambda item: (bool(item[3]) or in_data_sheets(gpu_type, item[1]), *item[:2])
            )
            unknowns = sibling_prior(unknowns, sibling, usual_ratio(gpu_type, name), ratios)
        else:
            state = self._classes[class_id]
            seconds = predicted_seconds(class_id, state.model, gpu_type, measured_models(others))
            unknowns = with_model(on_type(unknowns, gpu_type), seconds, state.terms.largest_per_gpu)
        fits = [
            (state.class_id, times.fit)
            for state in self._classes.values()
            for times in state.times.values()
            if times.fit is not None
        ]
        there = [
            (state.class_id, known)
            for state in others
            if gpu_type in state.times and (known := state.times[gpu_type].fit) is not None
        ]
        links = [
            (name, MeasuredLink.of(parameters, known))
            for name, known in there
            if (parameters := self._classes[name].model.parameters)
        ]
        sums = sync_priors(self._classes[class_id].model.parameters, unknowns, Told.to(class_id, links))
        return unknowns, estimate_misfit(Told.to(class_id, fits), Told.to(class_id, there)), sums

    def _noise_curve(self, class_id: ClassId) -> tuple[Noise, ...]:
        state = self._classes[class_id]
        if state.curve and not self._curve_is_due(state):
            return state.curve
        reports = state.noise.reports
        curves = [(other.class_id, other.curve) for other in self._others(class_id) if other.curve_reports]
        prior = noise_prior(Told.to(class_id, curves))
        state.curve, state.curve_reports, state.curve_prior = state.noise.curve(prior), reports, self._prior_generation
        state.curve_scatter, state.curve_off = state.noise.scatter(), 0.0
        if reports:
            self._note_progress(state)
        return state.curve

    def _curve_is_due(self, state: ClassState) -> bool:
        """Whether many gradient reports have come since the curve was computed, or some that lie far from the
        curve."""
        reports, last = state.noise.reports, state.curve_reports
        if not reports:
            return state.curve_prior != self._prior_generation
        if reports >= min(max(NOISE_GROWN * last, last + 1), last + NOISE_REPORTS):
            return True
        return state.curve_off**2 > SURPRISE**2 * (reports - last) * state.curve_scatter

    def _candidates(
        self, state: ClassState, gpu_type: str, gpus: int, step_fit: StepTimeFit
    ) -> tuple[BatchCandidate, ...]:
        """The batch candidates of a width; the same objects while the fit stays the same."""
        last = state.candidates.get((gpu_type, gpus))
        if last is None or last[0] is not step_fit:
            last = step_fit, candidates(step_fit, state.terms, self._shape(gpu_type, gpus))
            state.candidates[gpu_type, gpus] = last
        elif last[1]:
            step_fit.of_width(last[1][0].where.shape)
        return last[1]

    def _build(
        self, state: ClassState, widths: Sequence[int], fits: Mapping[str, StepTimeFit], curve: Sequence[Noise]
    ) -> Learned:
        largest = state.terms.largest / state.terms.own
        options = {
            gpu_type: {gpus: self._candidates(state, gpu_type, gpus, step_fit) for gpus in widths}
            for gpu_type, step_fit in fits.items()
        }
        phases = []
        for until, noise in phase_segments(curve, largest):
            entries: list[Entry] = []
            for gpu_type, step_fit in fits.items():
                best = [(gpus, best_batch(step_fit, noise, batches)) for gpus, batches in options[gpu_type].items()]
                choices = [(gpus, choice) for gpus, choice in best if choice is not None]
                entries.extend(_entries(gpu_type, choices, step_fit, state.reports, self._model_misfit))
            spread = LIKELY * sqrt(noise.level_variance)
            value = exp(noise.level)
            phases.append(
                LearnedPhase(until, value, value * exp(-spread), value * exp(spread), noise.count, tuple(entries))
            )
        return Learned(state.class_id, state.terms.own, state.reports, tuple(phases))


def _entries(
    gpu_type: str,
    choices: Sequence[tuple[int, BatchChoice]],
    step_fit: StepTimeFit,
    reports: int,
    model_misfit: float,
) -> Iterable[Entry]:
    """The entries of one curve, which is the concave fit of 1 / E[time per work]. Expected seconds and dollars follow
    from it.

    Uncertainty that all widths share must favour none of them, so only the variance beyond that of the width with the
    least variance counts. A class without reports gets medians instead of expected values, because the farther a
    width is, the less certain its gain. As on every curve, a wider width never counts as slower.
    """
    common = min((choice.variance for _, choice in choices), default=0.0)
    values: list[float] = []
    fallback = inf
    for _, choice in choices:
        fallback = expected_time(-choice.log_goodput, choice.variance - common, fallback)
        values.append(1.0 / fallback)
    weights = [1.0 / (value * value * choice.variance) for value, (_, choice) in zip(values, choices, strict=True)]
    smooth = near_concave([gpus for gpus, _ in choices], values, weights, model_misfit)
    if not reports:
        smooth = list(accumulate([exp(choice.log_goodput) for _, choice in choices], max))
    for value, (gpus, choice) in zip(smooth, choices, strict=True):
        spread = LIKELY * sqrt(choice.variance)
        effect = step_fit.effects.get(choice.where.shape)
        count = 0 if effect is None else effect.count
        source = CurveSource.MEASURED if count else CurveSource.EXTRAPOLATED if reports else CurveSource.PRIOR
        yield Entry(
            gpu_type,
            gpus,
            value,
            min(exp(choice.log_goodput - spread), value),
            max(exp(choice.log_goodput + spread), value),
            choice.where.batch,
            exp(choice.log_seconds),
            source,
            count,
        )


# Jobs that share a GPU with one other job of a known class. Their reports show which fraction of their speed alone
# they keep.


def learn_pair(learner: Learner, report: Observation, beside: ClassId) -> None:
    """Learn from a report of a job that shared its GPU with a job of the class ``beside``. ``learner.report`` has
    taken the report before.

    The seconds of the job's step are compared with the present estimate of the same step alone on a GPU of that type.
    A pair remembers ``MEMORY_REPORTS`` reports, so comparisons with earlier, worse estimates are forgotten.
    """
    state = learner.state(report.class_id)
    alone = learner.step_times(report.class_id, whole_type(report.gpu_type))
    expected = alone.predict(split(state.terms, report.shape, report.batch)).mean
    key = report.gpu_type, beside
    cell = state.pairs.pop(key, None) or BatchCell()
    cell.add(expected - log(report.step_seconds), state.times[report.gpu_type].scatter)
    state.pairs[key] = cell  # the latest is last
    if len(state.pairs) > MOST_PAIRS:
        del state.pairs[next(iter(state.pairs))]


def learned_pairs(state: ClassState) -> tuple[PairSpeed, ...]:
    """The fraction of its speed that the class kept beside each other class, the least recent pair first."""
    return tuple(
        [
            PairSpeed(gpu_type, beside, min(exp(cell.mean), 1.0), cell.count)
            for (gpu_type, beside), cell in state.pairs.items()
        ]
    )


def remembered(pairs: Iterable[PairSpeed]) -> dict[PairKey, BatchCell]:
    """The statistics of pairs, restored from their records."""
    return {
        (pair.gpu_type, pair.beside): BatchCell(
            min(float(pair.reports), MEMORY_REPORTS), log(pair.kept), 0.0, pair.reports
        )
        for pair in pairs
    }
