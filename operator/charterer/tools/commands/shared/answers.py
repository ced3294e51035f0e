"""The schemas of what commands print with ``-o json``, which are also those of the tools of ``charterer mcp``.

``python -m charterer.tools.commands.shared.answers [--check] DIR`` writes a JSON Schema for each command into DIR. With
``--check`` it exits 1 and lists the stale files. A later version may add keys, so a schema allows keys that it does not
name; the tests of the commands refuse them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import click
from pydantic import Field, TypeAdapter

from charterer.tools.commands.shared.planner_answers import (
    Dollars,
    Printed,
    PrintedExplanation,
    PrintedLosses,
    PrintedPlan,
    PrintedQuote,
    Seconds,
    Time,
)

# charterer costs


class PrintedBudgetMonth(Printed):
    """``spent``: by the ledger; null for a month that it has no more. ``stillOpen``: what is not on record yet."""

    name: str
    timeZone: str
    start: Time | None
    end: Time | None
    open: bool | None
    amount: Dollars | None = None
    spent: Dollars | None = None
    opening: Dollars
    onRecord: Dollars
    stillOpen: Dollars
    notOnRecord: Dollars | None
    losses: PrintedLosses | None = None


class PrintedCostSum(Printed):
    """A sum, with the values of the keys that were asked for. ``own`` and ``waste``: with ``--share-waste``."""

    budget: str
    dollars: Dollars
    stillOpen: Dollars
    gpuHours: float | None
    own: Dollars | None = None
    waste: Dollars | None = None


class PrintedCosts(Printed):
    """Who spent what in a month."""

    month: str
    by: list[str]
    record: str | None
    budgets: list[PrintedBudgetMonth]
    costs: list[PrintedCostSum]


# charterer report


class PrintedSimulatedMean(Printed):
    """Dollars, and the mean seconds from submission to completion."""

    spends: Dollars
    meanCompletionSeconds: Seconds


class PrintedAtTheSameMoney(PrintedSimulatedMean):
    """Job-hours that are saved for today's money."""

    savesJobHours: float
    savesJobHoursLow: float | None
    savesJobHoursHigh: float | None


class PrintedAtTheSameMeanTime(PrintedSimulatedMean):
    """Dollars that are saved in today's mean time."""

    saves: Dollars
    savesLow: Dollars | None
    savesHigh: Dollars | None


class PrintedWithOtherMoney(PrintedSimulatedMean):
    """``times``: of today's money. ``sooner``: by which part of the mean time."""

    times: float
    today: PrintedSimulatedMean
    sooner: float
    soonerLow: float | None
    soonerHigh: float | None


class PrintedInterval(Printed):
    """How the intervals were made."""

    level: float
    resamples: int
    method: str
    jobsInBlock: int


class PrintedNotModelled(Printed):
    """What was left out or simplified."""

    count: int
    what: str


class PrintedBudgetReport(Printed):
    """The last month's jobs of a budget, simulated. ``noNumberBecause``: why there is no saving; null if there is."""

    name: str
    mode: str
    paysPerHourSaved: Dollars | None
    began: Annotated[Time, Field(alias="from")]
    to: Time
    jobs: int
    jobsWithCurve: int
    measuredMeanCompletionSeconds: Seconds | None
    noNumberBecause: str | None
    asAsked: PrintedSimulatedMean | None
    atTheSameMoney: PrintedAtTheSameMoney | None
    atTheSameMeanTime: PrintedAtTheSameMeanTime | None
    withOtherMoney: list[PrintedWithOtherMoney]
    interval: PrintedInterval | None
    notModelled: list[PrintedNotModelled]
    losses: PrintedLosses


class PrintedReport(Printed):
    """What Charterer saves on the last month's jobs."""

    budgets: list[PrintedBudgetReport]


# charterer predict


class PrintedPredictedStep(Printed):
    """Seconds of a step at a width; nine of ten outcomes lie between ``low`` and ``high``."""

    gpuType: str
    gpus: int
    batch: float | None
    seconds: Seconds
    low: Seconds
    high: Seconds
    samplesPerSecond: float | None
    source: str


class PrintedPredictedClass(Printed):
    """``missing``: why nothing is predicted. ``classesAlike``: that tell of this one."""

    namespace: str
    name: str
    steps: list[PrintedPredictedStep]
    checkpointSeconds: Seconds | None
    checkpointBasis: str | None
    classesAlike: int
    missing: str | None


class PrintedPredictedStart(Printed):
    """Seconds until a new node is ready. ``seen``: starts. ``declaredSeconds``: ``spec.startSeconds``."""

    name: str
    startSeconds: Seconds
    seen: float
    declaredSeconds: Seconds


class PrintedPrediction(Printed):
    """How long steps, checkpoints and start-ups will take."""

    classes: list[PrintedPredictedClass]
    pools: list[PrintedPredictedStart]
    nobodyActs: str | None
    warnings: list[str]


# charterer doctor and preflight


class PrintedFinding(Printed):
    """``remedy``: what to do; null if nothing. ``lostHourly``: what it costs an hour until then."""

    ok: bool
    skipped: bool
    check: str
    subject: str
    message: str
    remedy: str | None
    lostHourly: Dollars | None


class PrintedFindings(Printed):
    """What the checks of a cluster found."""

    ok: bool
    findings: list[PrintedFinding]


class PrintedPoolFinding(Printed):
    """What a check of a pool found."""

    subject: str
    ok: bool
    message: str


class PrintedCheckedPool(Printed):
    """The checks of a pool."""

    pool: str
    ok: bool
    findings: list[PrintedPoolFinding]


class PrintedPreflight(Printed):
    """What the checks of pools found."""

    pools: list[PrintedCheckedPool]


# charterer bill


class PrintedBillFile(Printed):
    """A bill that was read, and its format."""

    path: str
    format: str


class PrintedCovered(Printed):
    """A time that bills cover."""

    start: Time
    end: Time


class PrintedBillDifference(Printed):
    """A group of machines. ``difference``: the bill less the ledger, which ``causes`` adds up to. A text is empty where
    rows are not grouped by it."""

    month: str
    budget: str
    pool: str
    rental: str
    machine: str
    cloud: str
    rentals: int
    lines: int
    ledger: Dollars
    outside: Dollars
    bill: Dollars
    difference: Dollars
    causes: dict[str, Dollars]


class PrintedBill(Printed):
    """What clouds bill beside the record of costs. ``covered``: by cloud."""

    files: list[PrintedBillFile]
    linesRead: int
    covered: dict[str, list[PrintedCovered]]
    differences: list[PrintedBillDifference]
    total: PrintedBillDifference
    notes: list[str]
    found: list[str]
    unknown: list[str]


# charterer simulate


class PrintedSimulatedPool(Printed):
    """What was rented in a pool."""

    rentedGPUHours: float
    dollars: float


class PrintedSimulatedPolicy(Printed):
    """A workload under a policy. ``paysPerJobHour``: its exchange rate. ``never``: jobs that do not end, which no mean
    counts."""

    policy: str
    paysPerJobHour: float | None
    learns: bool
    meanCompletionSeconds: Seconds | None
    medianCompletionSeconds: Seconds | None
    p90CompletionSeconds: Seconds | None
    rentedGPUHours: float
    usedGPUHours: float
    dollars: float
    restarts: int
    jobs: int
    complete: int
    never: list[str]
    interruptions: int
    pools: dict[str, PrintedSimulatedPool]


# charterer run


class PrintedJob(Printed):
    """The job that was created. ``state`` and ``reason``: what the operator says of it; null if it said nothing within
    ten seconds. ``message``: the line that is printed without ``-o``."""

    namespace: str
    name: str
    uid: str
    state: str | None
    reason: str | None
    message: str


ANSWERS: Final[Mapping[str, TypeAdapter[Any]]] = {
    "plan": TypeAdapter(PrintedPlan),
    "report": TypeAdapter(PrintedReport),
    "explain": TypeAdapter(PrintedExplanation),
    "quote": TypeAdapter(PrintedQuote),
    "predict": TypeAdapter(PrintedPrediction),
    "costs": TypeAdapter(PrintedCosts),
    "doctor": TypeAdapter(PrintedFindings),
    "simulate": TypeAdapter(list[PrintedSimulatedPolicy]),
    "preflight": TypeAdapter(PrintedPreflight),
    "bill": TypeAdapter(PrintedBill),
    "run": TypeAdapter(PrintedJob),
}
"""What each command prints with ``-o json``."""


def schema_of(command: str) -> dict[str, Any]:
    """The JSON Schema of what a command prints."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return dialect | ANSWERS[command].json_schema() | {"title": f"charterer {command} -o json"}


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if a file is stale.")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def main(check: bool, folder: Path) -> None:
    """Write a schema for each command."""
    made = {folder / f"{command}.json": json.dumps(schema_of(command), indent=2) + "\n" for command in ANSWERS}
    if check:
        there = {file: file.read_text() for file in folder.glob("*.json")}
        stale = sorted(str(file) for file in made.keys() | there.keys() if made.get(file) != there.get(file))
        if stale:
            raise click.ClickException(f"stale: {', '.join(stale)}; run `make generated`")
        return
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in made.items():
        file.write_text(text)


if __name__ == "__main__":
    main()
