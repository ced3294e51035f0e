"""The learner: reports of all classes go in, what is known of each comes out. Mutable, deterministic, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, inf, log, sqrt

from charterer.domain.ids import ClassId
from charterer.domain.profile import CurveSource
from charterer.estimate.class_state import ClassState
from charterer.estimate.fitting import fit, refit
from charterer.estimate.goodput import BatchCandidate, BatchChoice, best_batch, candidates, probes
from charterer.estimate.learned import LIKELY, MOST_WIDTHS, Entry, Learned, LearnedPhase
from charterer.estimate.noise import BINS, Noise, log_noise
from charterer.estimate.observation import ClassTerms, Observation, Shape, split
from charterer.estimate.phases import phase_segments
from charterer.estimate.prior import estimate_misfit, noise_prior, sibling_prior, unknowns_prior
from charterer.estimate.sizes import PRIOR_WORK, Interval
from charterer.estimate.speedup import expected_time, near_concave
from charterer.estimate.step_times import StepTimes
from charterer.estimate.throughput import Misfit, Normal, StepTimeFit, Unknown

DEFAULT_NODE_GPUS = 8
"""Where nobody says how many GPUs a node has and no pod had more: the usual large node."""
NOISE_GROWN = 1.1
NOISE_REPORTS = 50
"""The noise curve is drawn anew for a tenth more reports, or for as many as a bin remembers: fewer hardly move it."""
TAUGHT = 1.1
"""What other classes teach is drawn anew for a tenth more fits of them: fewer hardly move it."""
SOUNDED = 4
"""Reports after which a width is no longer sounded: a trainer may round to other sizes than it is told."""
BATCH_HOPE = 1.0
"""Standard deviations: with fewer a better batch size may never be tried, with more too many bad ones are."""


class Learner:
    """What all reports so far say. Copies (``copy.deepcopy``) and pickles are independent of each other.

    ``classes``: what is declared of them; ``node_gpus``: GPUs of a node by GPU type, else the most that a pod ever had.
    ``model_misfit``: how far a true curve lies off its concave fit (standard deviation of its logarithm). At 0 curves
    are concave and non-decreasing, whatever was measured; above, what was measured often enough is believed.
    """

    def __init__(
        self, classes: Iterable[ClassTerms], node_gpus: Mapping[str, int] | None = None, model_misfit: float = 0.0
    ) -> None:
        self._model_misfit = model_misfit
        self._classes = {one.class_id: ClassState(one) for one in classes}
        self._node_gpus = dict(node_gpus or {})
        self._seen_gpus: dict[str, int] = dict.fromkeys(self._node_gpus, 1)
        self._fits = 0
        self._lesson = 0

    def declare(self, terms: ClassTerms) -> None:
        """One more class, or other terms for one; what was learned under other terms is dropped."""
        known = self._classes.get(terms.class_id)
        if known is None or known.terms != terms:
            self._classes[terms.class_id] = ClassState(terms)

    def declared(self, class_id: ClassId) -> ClassTerms | None:
        """What is declared of the class; None where nothing is."""
        known = self._classes.get(class_id)
        return None if known is None else known.terms

    def forget(self, class_id: ClassId) -> None:
        """The class is as if it had never been; what others learned with its help stays with them."""
        self._classes.pop(class_id, None)

    def nodes_have(self, gpu_type: str, gpus: int) -> None:
        """So many GPUs are on a node of that type."""
        if self._node_gpus.get(gpu_type) != gpus:
            self._node_gpus[gpu_type] = gpus
            self._seen_gpus.setdefault(gpu_type, 1)
            for one in self._classes.values():
                one.tried.clear()
                one.cached.clear()

    def seen(self, class_id: ClassId) -> Mapping[str, tuple[int, ...]]:
        """The numbers of GPUs that the class has run on, ascending, by GPU type."""
        times = self._class(class_id).times
        return {name: tuple(sorted({where.shape.gpus for where in one.cells})) for name, one in times.items()}

    def report(self, report: Observation) -> None:
        """Learn from a report. ValueError naming what is wrong with it; gradient figures that mean nothing are left."""
        one = self._class(report.class_id)
        if fault := report.fault():
            raise ValueError(fault)
        terms = one.terms
        if report.gpu_type not in one.times:
            one.times[report.gpu_type] = StepTimes(terms.largest_local_batch)
        one.times[report.gpu_type].add(split(terms, report.shape, report.batch), report.step_seconds)
        self._saw(report.gpu_type, report.shape)
        if report.grad_sqr is not None and report.grad_var is not None:
            scale = report.batch / terms.own_batch
            value = log_noise(report.grad_sqr, report.grad_var, terms.largest_batch / terms.own_batch)
            if value is not None:
                one.noise.add(report.fraction, log(scale), value)

    def state(self, class_id: ClassId) -> ClassState:
        """The statistics of one class, to be read: ``restore`` takes them back."""
        return self._class(class_id)

    def restore(self, state: ClassState) -> None:
        """Take statistics of a class that were kept elsewhere; its fits are then done anew."""
        self._classes[state.terms.class_id] = state
        for gpu_type, times in state.times.items():
            for where in times.cells:
                self._saw(gpu_type, where.shape)
        self._fits += 1
        self._lesson = self._fits

    def completed(self, class_id: ClassId, work: float) -> None:
        """A job is done that was ``work`` (statistical progress, in own-batch steps)."""
        self._class(class_id).sizes.completed(work)

    def profile(self, class_id: ClassId, widths: Sequence[int], gpu_types: Sequence[str] | None = None) -> Learned:
        """What is known of the class at those numbers of GPUs, ascending.

        ``gpu_types``: for which curves are wanted (those the class ran on, else all that any class ran on). ValueError
        for widths that do not ascend from 1 or are more than MOST_WIDTHS.
        """
        if not 1 <= len(widths) <= MOST_WIDTHS or any(a >= b for a, b in zip((0, *widths), widths, strict=False)):
            raise ValueError(f"widths {list(widths)}: give 1 to {MOST_WIDTHS} ascending numbers of GPUs")
        one = self._class(class_id)
        types = tuple(gpu_types) if gpu_types is not None else self._types(one)
        fits = {gpu_type: self._fit(class_id, gpu_type) for gpu_type in types}
        curve = self._curve(class_id)
        key = (tuple(widths), types)
        version = one.version if one.best is not None else self._lesson
        known = one.cached.get(key)
        if known is None or known[0] != version:
            known = version, self._build(one, widths, fits, curve)
            one.cached[key] = known
        return known[1]

    def batch(self, class_id: ClassId, gpu_type: str, gpus: int, fraction: float) -> int:
        """The total batch size to train on with just now: for re-choosing it within an epoch.

        A width on which the class never ran is sounded first. Then one that may be better than it is known to be is
        tried: if it is not, a few steps were a little slower, and all later ones are at the best. (Optimism in the face
        of uncertainty: Auer, Cesa-Bianchi and Fischer 2002.)
        """
        one = self._class(class_id)
        known = self._fit(class_id, gpu_type)
        tried = self._tried(one, gpu_type, gpus, known)
        cells = one.times[gpu_type].cells if gpu_type in one.times else {}
        for where in probes(tried):
            if where not in cells:
                heard = sum(cell.count for other, cell in cells.items() if other.shape == where.shape)
                if heard < SOUNDED:
                    return where.batch
        noise = self._curve(class_id)[min(int(fraction * BINS), BINS - 1)]
        choice = best_batch(known, noise, tried, BATCH_HOPE)
        return one.terms.own_batch if choice is None else choice.where.batch

    def step_times(self, class_id: ClassId, gpu_type: str) -> StepTimeFit:
        """The fitted model of the class's step times on a GPU type, from priors alone where it never ran there."""
        self._class(class_id)
        return self._fit(class_id, gpu_type)

    def work(self, class_id: ClassId) -> Interval:
        """Mean work of a job of the class, in own-batch steps."""
        return self._class(class_id).sizes.mean(self._usual_work(class_id))

    def _class(self, class_id: ClassId) -> ClassState:
        known = self._classes.get(class_id)
        if known is None:
            raise ValueError(f"class {class_id} is not declared: declare its batch sizes first")
        return known

    def _saw(self, gpu_type: str, shape: Shape) -> None:
        per_node = -(-shape.gpus // shape.nodes)
        self._seen_gpus[gpu_type] = max(self._seen_gpus.get(gpu_type, 1), per_node)

    def _types(self, one: ClassState) -> tuple[str, ...]:
        return tuple(sorted(one.times or self._seen_gpus))

    def _shape(self, gpu_type: str, gpus: int) -> Shape:
        per_node = self._node_gpus.get(gpu_type) or max(self._seen_gpus.get(gpu_type, 1), DEFAULT_NODE_GPUS)
        return Shape(-(-gpus // per_node), gpus)

    def _usual_work(self, class_id: ClassId) -> float:
        """Geometric mean of the other classes' mean work, else the class's own."""
        logs = [
            log(sum(other.sizes.latest) / len(other.sizes.latest))
            for name, other in self._classes.items()
            if name != class_id and other.sizes.latest
        ]
        own = self._classes[class_id].sizes.latest
        if logs:
            return exp(sum(logs) / len(logs))
        return sum(own) / len(own) if own else PRIOR_WORK

    def _fit(self, class_id: ClassId, gpu_type: str) -> StepTimeFit:
        """The class's fit on a GPU type; from priors alone where it never ran there."""
        one = self._classes[class_id]
        times = one.times.get(gpu_type)
        if times is None:
            return self._borrowed(class_id, gpu_type)
        if times.fit is not None and not times.outgrown:
            return times.fit
        result = refit(times, *self._prior(class_id, gpu_type))
        self._learned(one)
        return result

    def _learned(self, one: ClassState) -> None:
        """A class is known better, and others can borrow from it."""
        one.version += 1
        self._fits += 1
        if self._fits >= max(TAUGHT * self._lesson, self._lesson + 1):
            self._lesson = self._fits

    def _borrowed(self, class_id: ClassId, gpu_type: str) -> StepTimeFit:
        """The fit on a GPU type that the class never ran on."""
        one = self._classes[class_id]
        known = one.borrowed.get(gpu_type)
        if known is None or known[0] != self._lesson:
            prior, off = self._prior(class_id, gpu_type)
            known = self._lesson, fit({}, one.terms.largest_local_batch, prior, off, 1.0)
            one.borrowed[gpu_type] = known
        return known[1]

    def _prior(self, class_id: ClassId, gpu_type: str) -> tuple[tuple[Normal, ...], Misfit]:
        others = [
            best.fit
            for name, other in self._classes.items()
            if name != class_id and (best := other.best) is not None and best.fit is not None
        ]
        unknowns = unknowns_prior(others)
        siblings = {
            name: times
            for name, times in self._classes[class_id].times.items()
            if name != gpu_type and times.fit is not None
        }
        if siblings:
            name, sibling = max(siblings.items(), key=lambda item: (item[1].reports, item[0]))
            if sibling.fit is not None:
                unknowns = sibling_prior(unknowns, sibling.fit, self._speed_ratios(class_id, gpu_type, name))
        fits = [
            (name, where, times.fit)
            for name, other in self._classes.items()
            for where, times in other.times.items()
            if times.fit is not None
        ]
        there = [found for name, where, found in fits if name != class_id and where == gpu_type]
        return unknowns, estimate_misfit((found for _, _, found in fits), there)

    def _speed_ratios(self, class_id: ClassId, gpu_type: str, sibling: str) -> list[float]:
        """log(seconds on the type / seconds on the sibling) of the other classes that ran on both."""
        ratios = []
        for name, other in self._classes.items():
            here, there = other.times.get(gpu_type), other.times.get(sibling)
            if name != class_id and here and there and here.fit and there.fit:
                ratios.append(here.fit.unknowns[Unknown.COMPUTE] - there.fit.unknowns[Unknown.COMPUTE])
        return ratios

    def _curve(self, class_id: ClassId) -> tuple[Noise, ...]:
        one = self._classes[class_id]
        reports, last = one.noise.reports, one.curve_reports
        grown = max(NOISE_GROWN * last, last + 1)
        if one.curve and (reports < min(grown, last + NOISE_REPORTS) if reports else one.curve_lesson == self._lesson):
            return one.curve
        prior = noise_prior(
            other.curve for name, other in self._classes.items() if name != class_id and other.curve_reports
        )
        one.curve, one.curve_reports, one.curve_lesson = one.noise.curve(prior), reports, self._lesson
        if reports:
            self._learned(one)
        return one.curve

    def _tried(self, one: ClassState, gpu_type: str, gpus: int, known: StepTimeFit) -> tuple[BatchCandidate, ...]:
        """Candidates of a width, kept as long as the fit."""
        found = one.tried.get((gpu_type, gpus))
        if found is None or found[0] is not known:
            found = known, candidates(known, one.terms, self._shape(gpu_type, gpus))
            one.tried[gpu_type, gpus] = found
        return found[1]

    def _build(
        self, one: ClassState, widths: Sequence[int], fits: Mapping[str, StepTimeFit], curve: Sequence[Noise]
    ) -> Learned:
        largest = one.terms.largest_batch / one.terms.own_batch
        tried = {
            gpu_type: {gpus: self._tried(one, gpu_type, gpus, known) for gpus in widths}
            for gpu_type, known in fits.items()
        }
        phases = []
        for until, noise in phase_segments(curve, largest):
            entries: list[Entry] = []
            for gpu_type, known in fits.items():
                choices = [(gpus, best_batch(known, noise, some)) for gpus, some in tried[gpu_type].items()]
                found = [(gpus, choice) for gpus, choice in choices if choice is not None]
                entries.extend(_entries(gpu_type, found, known, one.reports, self._model_misfit))
            spread = LIKELY * sqrt(noise.level_variance)
            value = exp(noise.level)
            phases.append(
                LearnedPhase(until, value, value * exp(-spread), value * exp(spread), noise.count, tuple(entries))
            )
        return Learned(one.terms.class_id, one.terms.own_batch, one.reports, tuple(phases))


def _entries(
    gpu_type: str, found: Sequence[tuple[int, BatchChoice]], known: StepTimeFit, reports: int, model_misfit: float
) -> Iterable[Entry]:
    """One curve: the concave fit of 1 / E[time per work], which is what expected seconds and dollars follow.

    What is uncertain of all widths alike favours none, so only what a width has beyond the surest one counts.
    """
    common = min((choice.variance for _, choice in found), default=0.0)
    values: list[float] = []
    fallback = inf
    for _, choice in found:
        fallback = expected_time(-choice.log_goodput, choice.variance - common, fallback)
        values.append(1.0 / fallback)
    weights = [1.0 / (value * value * choice.variance) for value, (_, choice) in zip(values, found, strict=True)]
    smooth = near_concave([gpus for gpus, _ in found], values, weights, model_misfit)
    for value, (gpus, choice) in zip(smooth, found, strict=True):
        spread = LIKELY * sqrt(choice.variance)
        effect = known.effects.get(choice.where.shape)
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
