"""How well estimates meet the measured tables: a table per question.

    python -m tests.bench.estimate

Reports are drawn from the tables of Pollux with 5 % scatter of step times and 10 % of gradient figures, at widths 1, 2,
4 and 8, any batch size and any epoch; then the other widths are asked for.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from charterer.domain.ids import ClassId
from charterer.domain.profile import BatchTerms
from charterer.domain.time import Instant
from charterer.estimate.learned import Learned
from charterer.estimate.learner import Learner, configurations
from charterer.estimate.observation import Observation, Shape
from charterer.tools.simulator.model.ground_truth import GPU_TYPE
from tests.bench._pollux import need_data, tables
from tests.measured import EPOCHS, GPUS_PER_NODE, Tables

GPU = "T4"
SEEN = (1, 2, 4, 8)
OFFERED = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
STEP_SCATTER, GRADIENT_SCATTER = 0.05, 0.1


def terms(table: Tables) -> BatchTerms:
    """What would be declared of the application."""
    return BatchTerms(table.own_batch, table.batches[-1], table.largest_local, table.smallest_local)


def learner(names: Sequence[str], model_misfit: float) -> Learner:
    """One that has heard of these applications and knows nothing of them."""
    return Learner({ClassId("team", name): terms(tables()[name]) for name in names}, {GPU: GPUS_PER_NODE}, model_misfit)


def shape(gpus: int) -> Shape:
    """On how many nodes so many GPUs are."""
    return Shape(-(-gpus // GPUS_PER_NODE), gpus)


def begins(table: Tables, epoch: int) -> float:
    """The part of the work done when an epoch begins."""
    return table.ends[epoch - 1] / table.ends[-1] if epoch else 0.0


def report(table: Tables, epoch: int, gpus: int, batch: int, draw: random.Random) -> Observation | None:
    """What a trainer would report; None where the tables cannot tell."""
    measurement = table.measurement(epoch, gpus, batch)
    if measurement is None:
        return None
    end = table.ends[epoch] / table.ends[-1]
    return Observation(
        ClassId("team", table.name),
        GPU,
        shape(gpus).nodes,
        gpus,
        measurement.batch,
        measurement.step_seconds * math.exp(draw.gauss(0.0, STEP_SCATTER)),
        draw.uniform(begins(table, epoch), end),
        Instant(0),
        measurement.grad_sqr * math.exp(draw.gauss(0.0, GRADIENT_SCATTER)),
        measurement.grad_var * math.exp(draw.gauss(0.0, GRADIENT_SCATTER)),
    )


def reports(table: Tables, widths: Sequence[int], number: int, seed: int) -> Iterator[Observation]:
    """So many reports at those widths, any batch size, any epoch."""
    draw = random.Random(f"{table.name}/{seed}")
    given = 0
    while given < number:
        gpus = draw.choice(widths)
        batch = draw.choice(configurations(terms(table), shape(gpus))).batch
        found = report(table, draw.randrange(EPOCHS[table.name]), gpus, batch, draw)
        if found is not None:
            given += 1
            yield found


def step_errors(table: Tables, known: Learner, widths: Sequence[int]) -> list[float]:
    """|log(predicted / measured seconds)| over all batch sizes that the tables have at those widths."""
    found = []
    for gpus in widths:
        for where in configurations(terms(table), shape(gpus)):
            true = table.seconds(gpus, where.local, where.passes)
            if true is not None:
                predicted = known.step_times(ClassId("team", table.name), GPU).predict(where).mean
                found.append(abs(predicted - math.log(true)))
    return sorted(found)


def quantile(values: Sequence[float], part: float) -> float:
    """The value below which that part lies."""
    return sorted(values)[min(int(part * len(values)), len(values) - 1)] if values else math.nan


def batch_losses(table: Tables, known: Learned, widths: Sequence[int]) -> list[float]:
    """1 - goodput at the chosen batch ÷ best goodput, for all widths and epochs."""
    lost = []
    best = table.application(widths)
    for epoch in range(EPOCHS[table.name]):
        phase = known.phase((begins(table, epoch) + best.ends[epoch]) / 2.0)
        for gpus in best.widths:
            got = table.rate(epoch, gpus, known.batch(phase, gpus))
            lost.append(1.0 - (got or 0.0) / best.rates[GPU_TYPE][epoch][gpus])
    return lost


def curve_errors(table: Tables, known: Learned, widths: Sequence[int]) -> list[float]:
    """log(estimated / true speedup over one GPU), for all widths and phases; above 0 is too optimistic."""
    best = table.application((1, *widths))
    found = []
    for epoch in range(EPOCHS[table.name]):
        phase = known.phase((begins(table, epoch) + best.ends[epoch]) / 2.0)
        single = known.entry(phase, 1).goodput
        for gpus in widths:
            if gpus in best.rates[GPU_TYPE][epoch]:
                true = best.rates[GPU_TYPE][epoch][gpus] / best.rates[GPU_TYPE][epoch][1]
                found.append(math.log(known.entry(phase, gpus).goodput / single / true))
    return found


def regrets(table: Tables, known: Learned, widths: Sequence[int]) -> list[float]:
    """By how much time and money together exceed the least, over exchange rates from 1/4 to 64 GPU prices."""
    best = table.application(widths)
    found = []
    for power in range(-2, 7):
        theta = 2.0**power
        cost = least = 0.0
        for epoch in range(EPOCHS[table.name]):
            end = best.ends[epoch]
            span = end - begins(table, epoch)
            phase = known.phase(end - span / 2.0)
            rates = best.rates[GPU_TYPE][epoch]
            guess = min(best.widths, key=lambda gpus: (theta + gpus) / known.entry(phase, gpus).goodput)
            cost += span * (theta + guess) / (table.rate(epoch, guess, known.batch(phase, guess)) or 1e-9)
            least += span * min((theta + gpus) / rates[gpus] for gpus in best.widths)
        found.append(cost / least - 1.0)
    return found


def covered(table: Tables, known: Learned, widths: Sequence[int]) -> float:
    """How often the true goodput lies within the 90 % interval."""
    best = table.application(widths)
    hits = total = 0
    for epoch in range(EPOCHS[table.name]):
        phase = known.phase((begins(table, epoch) + best.ends[epoch]) / 2.0)
        for gpus in best.widths:
            entry = known.entry(phase, gpus)
            true = best.rates[GPU_TYPE][epoch][gpus] * table.ends[-1]
            hits += entry.low <= true <= entry.high
            total += 1
    return hits / total


def others(name: str, number: int, model_misfit: float = 0.0) -> Learner:
    """All applications declared, all but one of them known well."""
    known = learner(sorted(EPOCHS), model_misfit)
    for other in sorted(EPOCHS):
        if other != name:
            for report in reports(tables()[other], OFFERED, number, 7):
                known.report(report)
            known.profile(ClassId("team", other), OFFERED)
    return known


def row(name: str, cells: Mapping[str, float], form: Callable[[float], str]) -> None:
    """One line of a table."""
    print(f"{name:14}" + "".join(f"{form(value):>12}" for value in cells.values()))


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def main() -> None:
    """Print all tables."""
    need_data()
    for number in (0, 10, 50, 200):
        head = ("step seen", "step new", "p90 new", "batch mean", "batch p90", "curve seen", "curve new", "bias new")
        print(f"\n{number} reports at {SEEN}, others known".ljust(40))
        print(f"{'':14}" + "".join(f"{column:>12}" for column in (*head, "regret", "worst", "covered")))
        for name in sorted(EPOCHS):
            table = tables()[name]
            known = others(name, 300)
            for report in reports(table, SEEN, number, 1):
                known.report(report)
            learned = known.profile(ClassId("team", name), OFFERED, (GPU,))
            new = [gpus for gpus in OFFERED if gpus not in SEEN]
            lost = batch_losses(table, learned, OFFERED)
            seen_off, new_off = curve_errors(table, learned, SEEN[1:]), curve_errors(table, learned, new)
            regret = regrets(table, learned, OFFERED)
            cells = {
                "a": quantile(step_errors(table, known, SEEN), 0.5),
                "b": quantile(step_errors(table, known, new), 0.5),
                "c": quantile(step_errors(table, known, new), 0.9),
                "d": sum(lost) / len(lost),
                "e": quantile(lost, 0.9),
                "f": quantile([abs(off) for off in seen_off], 0.5),
                "g": quantile([abs(off) for off in new_off], 0.5),
                "h": sum(new_off) / len(new_off) if new_off else 0.0,
                "i": sum(regret) / len(regret),
                "j": max(regret),
                "k": covered(table, learned, OFFERED),
            }
            row(name, cells, _percent)
    for model_misfit in (0.0, 0.1):
        print(f"\nregret where all widths ran, model_misfit {model_misfit}; mean and worst over exchange rates")
        for name in sorted(EPOCHS):
            known = others(name, 300, model_misfit)
            for report in reports(tables()[name], OFFERED, 1000, 1):
                known.report(report)
            learned = known.profile(ClassId("team", name), OFFERED)
            regret = regrets(tables()[name], learned, OFFERED)
            row(name, {"mean": sum(regret) / len(regret), "worst": max(regret)}, _percent)
    print("\nmilliseconds per report with the whole profile after each")
    for name in sorted(EPOCHS):
        known = others(name, 300)
        told = list(reports(tables()[name], OFFERED, 2000, 3))
        slowest, begin = 0.0, time.process_time()
        for report in told:
            before = time.process_time()
            known.report(report)
            known.profile(ClassId("team", name), OFFERED)
            slowest = max(slowest, time.process_time() - before)
        mean = (time.process_time() - begin) / len(told)
        row(name, {"mean": mean, "slowest": slowest}, lambda value: f"{1000 * value:.2f}")


if __name__ == "__main__":
    main()
