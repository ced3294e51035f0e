"""What is predicted before the first run, against measured tables: the constants again, and how far it is off.

    python -m tests.bench.predict

LEVEL, SLOPE and three spreads come from CM-DARE's models on K80 and P100, the spreads of type and family from four of
Gavel's. Sia's tables (T4, A100) test it; no number comes from them. That seconds grow with FLOPs beyond the largest
model of CM-DARE has a reason of its own, but was thought of after the first look at Sia's two large models; so of these
the bench also prints what a single slope would say. A model's repeats are never on both sides: "left out" is what a
prior for a class that nobody has seen has to do.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev, pvariance

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from charterer.domain.ids import ClassId
from charterer.domain.profile import ModelFacts
from charterer.estimate import priors
from charterer.estimate.learned import LIKELY
from charterer.estimate.priors import SHEET_POWER, MeasuredModel, predicted_seconds
from charterer.gpu_types.accelerators import MODELS
from charterer.policy.options import sources
from demo.condense import data_dir
from tests.bench import _cmdare as cmdare
from tests.bench import _gavel as gavel
from tests.bench import _pollux as pollux
from tests.bench._cmdare import MeasuredStep
from tests.bench._models import FLOPS


def mean_error(errors: Sequence[float]) -> float:
    """The mean of |predicted ÷ true − 1|, from errors of logarithms."""
    return fmean(abs(math.expm1(error)) for error in errors)


def root_mean_square(errors: Sequence[float]) -> float:
    """Of errors of logarithms."""
    return math.sqrt(fmean(error * error for error in errors))


def _x(step: MeasuredStep) -> float:
    return math.log(step.flops / priors.CENTRE)


def _sheet(gpu_type: str) -> float:
    sheet = MODELS[gpu_type]
    return SHEET_POWER * math.log(sheet.teraflops * sheet.bandwidth) / 2.0


def _line(steps: Iterable[MeasuredStep]) -> tuple[float, float]:
    """Level and slope by least squares."""
    steps = list(steps)
    heights = [math.log(step.seconds) + _sheet(step.gpu_type) for step in steps]
    slope, level = np.polyfit([_x(step) for step in steps], heights, 1)
    return float(level), float(slope)


def left_out(steps: Sequence[MeasuredStep]) -> list[float]:
    """Errors of log seconds of each model by a line through the others."""
    errors = []
    for model in sorted({step.model for step in steps}):
        level, slope = _line(step for step in steps if step.model != model)
        errors += [
            level + slope * _x(step) - _sheet(step.gpu_type) - math.log(step.seconds)
            for step in steps
            if step.model == model
        ]
    return errors


@dataclass(frozen=True, slots=True)
class Derived:
    """The constants of ``model_prior`` as the tables have them."""

    level: float
    slope: float
    family_slope: float
    model: float
    model_on_type: float


def derived() -> Derived:
    """From CM-DARE's models."""
    steps = cmdare.steps()
    families = [[step for step in steps if step.family == family] for family in ("resnet", "shake")]
    slopes = [_line(family)[1] for family in families]
    within = root_mean_square([error for family in families for error in left_out(family)])
    on_type = math.sqrt(fmean(_ratio_variance(family) for family in families) / 2.0)
    return Derived(*_line(steps), abs(slopes[0] - slopes[1]) / 2.0, within, on_type)


def _ratio_variance(steps: Sequence[MeasuredStep]) -> float:
    """Of the logarithm of seconds on a K80 over seconds on a P100."""
    seconds = {(step.model, step.gpu_type): step.seconds for step in steps}
    models = {step.model for step in steps}
    return pvariance([math.log(seconds[model, "K80"] / seconds[model, "P100"]) for model in models])


def free_left_out(steps: Sequence[MeasuredStep]) -> list[float]:
    """As ``left_out``, with a power of the GPU's arithmetic throughput of its own instead of the data sheets' rule."""
    errors = []
    for model in sorted({step.model for step in steps}):
        rows, ends = ([step for step in steps if (step.model == model) is out] for out in (False, True))
        line = np.linalg.lstsq(_free(rows), [math.log(step.seconds) for step in rows], rcond=None)[0]
        errors += list(_free(ends) @ line - [math.log(step.seconds) for step in ends])
    return errors


def _free(steps: Sequence[MeasuredStep]) -> NDArray[np.float64]:
    return np.array([[1.0, _x(step), math.log(MODELS[step.gpu_type].teraflops)] for step in steps])


def of_gavel() -> list[MeasuredStep]:
    """Its models of which the FLOPs are known, at the batch that is fastest on one GPU."""
    found = []
    for model in ("ResNet-18", "ResNet-50", "LM", "Transformer"):
        for gpu_type in ("K80", "P100", "V100"):
            batches = (5, 10, 16, 20, 32, 40, 64, 80, 128, 256)
            rates = [
                batch * gavel.steps_per_second(gpu_type.lower(), f"{model} (batch size {batch})", 1)
                for batch in batches
            ]
            found.append(MeasuredStep(model, gpu_type, FLOPS[model], 0.0, 1.0 / max(rates)))
    return found


def spreads() -> tuple[float, float]:
    """Of type and family, by maximum likelihood for Gavel's models, beside a residual."""
    off = predictions(of_gavel(), lambda *_: False)
    errors = np.array([error for _, error, _ in off])
    steps = [step for step, _, _ in off]
    same_type = np.array([[one.gpu_type == other.gpu_type for other in steps] for one in steps], float)
    same_model = np.array([[one.model == other.model for other in steps] for one in steps], float)

    def surprise(logs: Sequence[float]) -> float:
        of_type, of_model, rest = np.exp(logs) ** 2
        among = of_type * same_type + of_model * same_model + (rest + 1e-4) * np.eye(len(steps))
        return float(np.linalg.slogdet(among)[1] + errors @ np.linalg.solve(among, errors)) / 2.0

    found = minimize(surprise, np.log([0.4, 0.4, 0.2]), method="Nelder-Mead")
    return float(np.exp(found.x[0])), float(np.exp(found.x[1]))


def of_sia() -> list[MeasuredStep]:
    """Its CNNs and BERT at the largest batch that ran on one GPU."""
    found = []
    for model in ("cifar10", "imagenet", "yolov3", "bert"):
        for gpu_type, name in (("T4", "aws"), ("A100", "dgx")):
            path = data_dir() / "sia" / "traces" / model / f"placements-{name}.csv"
            with path.open(newline="") as lines:
                rows = [row for row in csv.DictReader(lines) if row["placement"] == "1"]
            if rows:
                batch, seconds = max((float(row["local_bsz"]), float(row["step_time"])) for row in rows)
                found.append(MeasuredStep(model, gpu_type, FLOPS[model], 0.0, seconds / batch))
    return found


def _facts(step: MeasuredStep) -> ModelFacts:
    return ModelFacts("" if step.model in FLOPS else step.family, step.flops)


def predictions(
    steps: Sequence[MeasuredStep], known: Callable[[MeasuredStep, MeasuredStep], bool]
) -> list[tuple[MeasuredStep, float, float]]:
    """Each step with the error of its predicted log seconds and their deviation; ``known(step, other)``: what ran."""
    found = []
    for step in steps:
        measured = [
            MeasuredModel(ClassId("m", other.model), _facts(other), other.gpu_type, math.log(other.seconds), 0.0025)
            for other in steps
            if known(step, other)
        ]
        predicted = predicted_seconds(ClassId("m", step.model), _facts(step), step.gpu_type, measured)
        assert predicted is not None
        found.append((step, predicted[0] - math.log(step.seconds), math.sqrt(predicted[1])))
    return found


def show(what: str, found: Sequence[tuple[MeasuredStep, float, float]]) -> None:
    """A line: mean and typical error, and how often the 90 % interval holds."""
    errors = [error for _, error, _ in found]
    held = fmean(abs(error) <= LIKELY * deviation for _, error, deviation in found)
    wide = math.exp(LIKELY * fmean(deviation for _, _, deviation in found))
    print(
        f"  {what:58} {mean_error(errors):7.1%} {root_mean_square(errors):6.2f} {held:6.0%}   factor {wide:.2f}"
        f"   n {len(found)}"
    )


def checkpoint_errors() -> tuple[float, float, list[float]]:
    """Seconds of a checkpoint: fixed, per parameter, and the errors of log seconds of each model left out."""
    table = list(cmdare.checkpoints().values())

    def line(rows: Sequence[tuple[float, tuple[float, ...]]]) -> tuple[float, float]:
        slope, level = np.polyfit([size for size, _ in rows], [fmean(seconds) for _, seconds in rows], 1)
        return float(level), float(slope)

    errors = []
    for at, (size, seconds) in enumerate(table):
        level, slope = line(table[:at] + table[at + 1 :])
        errors += [math.log((level + slope * size) / one) for one in seconds]
    return *line(table), errors


def _other_model(step: MeasuredStep, other: MeasuredStep) -> bool:
    return other.model != step.model


def _other_row(step: MeasuredStep, other: MeasuredStep) -> bool:
    return other is not step


def main() -> None:
    """Print the constants and the errors."""
    cmdare.need_data()
    gavel.need_data()
    pollux.need_data()
    steps, found = cmdare.steps(), derived()
    print("constants of estimate.model_prior, again and as they are")
    of_type, of_family = spreads()
    for name, again, now in (
        ("LEVEL", found.level, priors.LEVEL),
        ("SLOPE", found.slope, priors.SLOPE),
        ("TYPE_SPREAD", of_type, priors.TYPE_SPREAD),
        ("FAMILY_SPREAD", of_family, priors.FAMILY_SPREAD),
        ("FAMILY_SLOPE_SPREAD", found.family_slope, priors.FAMILY_SLOPE_SPREAD),
        ("MODEL_SPREAD", found.model, priors.IN_FAMILY_SPREAD),
        ("MODEL_TYPE_SPREAD", found.model_on_type, priors.MODEL_TYPE_SPREAD),
    ):
        print(f"  {name:20} {again:7.3f} {now:7.3f}")
    print("\nseconds a step: mean error, deviation of logarithms, 90 % interval holds, and is a")
    resnets = [step for step in steps if step.family == "resnet"]
    for name, table in (("20 models", steps), ("12 ResNets", resnets)):
        print(f"  {f'CM-DARE, {name}: a line, one left out':58} {mean_error(left_out(table)):7.1%}")
        print(f"  {'... the power of the GPU free':58} {mean_error(free_left_out(table)):7.1%}")
    show("CM-DARE, the others ran here", predictions(steps, _other_model))
    show("CM-DARE's ResNets, the others ran here", predictions(resnets, _other_model))
    show("CM-DARE, the others, and it on the other type", predictions(steps, _other_row))
    for name, table in (("Gavel", of_gavel()), ("Sia", of_sia())):
        show(f"{name}, nothing ran here", predictions(table, lambda *_: False))
        show(f"{name}, the others ran here", predictions(table, _other_model))
    for step, error, deviation in predictions(of_sia(), lambda *_: False):
        straight = error - (1.0 - priors.SLOPE) * max(_x(step) - priors.LARGEST, 0.0)
        print(
            f"    {step.model:9} {step.gpu_type:5} predicted ÷ true {math.exp(error):5.2f}, deviation {deviation:.2f}; "
            f"with one slope {math.exp(straight):5.2f}"
        )
    fixed, each, errors = checkpoint_errors()
    print("\nseconds of a checkpoint")
    for name, again, now in (
        ("FIXED_SECONDS", fixed, sources.FIXED_SECONDS),
        ("SECONDS_PER_PARAMETER", each, sources.SECONDS_PER_PARAMETER),
    ):
        print(f"  {name:22} {again:9.3g} {now:9.3g}")
    within = fmean(pstdev(seconds) / fmean(seconds) for _, seconds in cmdare.checkpoints().values())
    print(f"  a model left out: {mean_error(errors):.1%} (repeats of one model: {within:.1%})")
    print("\nseconds of a start-up: mean, scatter of one; nothing to regress on")
    for (where, gpu_type), seconds in cmdare.start_ups().items():
        print(f"  {where:15} {gpu_type:5} {fmean(seconds):6.1f} {pstdev(seconds) / fmean(seconds):6.1%}")


if __name__ == "__main__":
    main()
