"""The options of ``charterer simulate`` in groups: source, nodes, policies and output."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from charterer.cli.shared.option_groups import option_group
from charterer.cli.shared.output import FORMATS
from charterer.domain.money import Money, Price
from charterer.report.pictures import file_format
from charterer.simulate.model.node_market import DEAREST, MOST_NODES, PoolModel
from charterer.simulate.model.pair_table import PairTable
from charterer.simulate.policy_registry import SHARING, PolicyChoice, check_policy, shares_gpus

_SPAN = re.compile(r"(\d+(?:\.\d+)?)([mhdw])")
_LONGEST_SECONDS = 604_800.0
"""A week: the longest start of a node, or restart of a run, that is believed."""
_HIGHEST_RATE = 1_000_000.0
_UNIT_SECONDS = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


class FiniteRange(click.FloatRange):
    """A range of numbers that nan is not in."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number. click.BadParameter where it is not in the range."""
        number: float = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options for what is simulated: a workload file with its speeds, or the cluster's own history."""

    from_cluster: bool
    last: str | None
    namespace: str | None
    save: Path | None
    speeds: Path | None

    def check(self, workload: Path | None) -> None:
        """ClickException unless exactly one source is named, with options that belong to it."""
        if self.from_cluster == (workload is not None):
            raise click.ClickException("name one thing to simulate: a workload file, or --from-cluster")
        options = {"--save": self.save, "--last": self.last, "--namespace": self.namespace}
        of_cluster = [name for name, value in options.items() if value]
        if of_cluster and not self.from_cluster:
            raise click.ClickException(f"{of_cluster[0]} is about the cluster's history: add --from-cluster")
        of_file = ["--speeds"] * (self.speeds is not None) + _given_node_options()
        if of_file and self.from_cluster:
            raise click.ClickException(
                f"{of_file[0]} is about a workload file, and the cluster has its own pools and profiles: leave it out, "
                "or --save the history and simulate that file"
            )

    @property
    def last_seconds(self) -> float | None:
        """``--last`` in seconds. ClickException where it is no span of time."""
        if self.last is None:
            return None
        match = _SPAN.fullmatch(self.last)
        if match is None or not float(match[1]):
            raise click.ClickException(f"--last {self.last!r} is no span of time: write it like 90m, 12h, 7d or 2w")
        return float(match[1]) * _UNIT_SECONDS[match[2]]


source_options = option_group(
    "source",
    SourceOptions,
    click.option("--from-cluster", is_flag=True, help="Simulate the jobs that the cluster still has on record."),
    click.option("--last", metavar="7d", help="With --from-cluster: only jobs submitted in the last 90m, 12h, 7d, 2w."),
    click.option("-n", "--namespace", help="With --from-cluster: only this namespace's jobs."),
    click.option(
        "--save",
        type=click.Path(dir_okay=False, path_type=Path),
        help="With --from-cluster: write the history as a workload file, and stop.",
    ),
    click.option(
        "--speeds",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="CSV with columns application, gpus, seconds: the time that a job of each application takes by its GPUs.",
    ),
)


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The nodes of jobs whose rows do not describe them. ``node_price``: dollars an hour.

    ``pools``: a file of pools. ``seed``: of the lifetimes that are drawn.
    """

    pools: Path | None
    gpus_per_node: int
    node_price: str
    start_seconds: float
    restart_seconds: float
    max_nodes: int
    seed: int

    def pool(self) -> PoolModel:
        """The pool of these nodes. ValueError for what is no price of a node."""
        problem = f"--node-price {self.node_price} is no price of a node: give from $0 to {DEAREST}"
        try:
            price = Price.parse(self.node_price)
        except ValueError as error:
            raise ValueError(f"{problem} ({error})") from error
        if not Price(0) <= price <= DEAREST:
            raise ValueError(problem)
        return PoolModel("pool", self.gpus_per_node, price, start_seconds=self.start_seconds, max_nodes=self.max_nodes)


def _given_node_options() -> list[str]:
    """The options about nodes that stand on the command line."""
    context = click.get_current_context()
    return [
        f"--{field.name.replace('_', '-')}"
        for field in fields(NodeOptions)
        if context.get_parameter_source(field.name) is ParameterSource.COMMANDLINE
    ]


node_options = option_group(
    "nodes",
    NodeOptions,
    click.option(
        "--pools",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="CSV of the pools on sale, where there are several: see docs/simulator.md.",
    ),
    click.option("--gpus-per-node", default=8, type=click.IntRange(1, 64), help="GPUs of a node, where no row says."),
    click.option("--node-price", default="16", help="Dollars an hour for a node, where no row says."),
    click.option(
        "--start-seconds",
        default=120.0,
        type=FiniteRange(0, _LONGEST_SECONDS),
        help="From asking for a node to its readiness.",
    ),
    click.option(
        "--restart-seconds",
        default=30.0,
        type=FiniteRange(0, _LONGEST_SECONDS),
        help="From the start of a run to its first step.",
    ),
    click.option(
        "--max-nodes",
        default=1000,
        type=click.IntRange(1, MOST_NODES),
        help="The most nodes that any policy may rent at once, where no row says.",
    ),
    click.option(
        "--seed",
        default=0,
        type=click.IntRange(0, 2**31),
        help="Another seed draws other lifetimes of spot nodes.",
    ),
)


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """The policies that are compared. ``rates``: dollars per job-hour saved, for the operator's planner.

    ``pairs``: a file that says what jobs keep of their speeds beside each other on a GPU.
    """

    policies: Sequence[str]
    rates: Sequence[float]
    learn: bool
    pairs: Path | None

    def check(self) -> None:
        """UnknownPolicy for a policy that does not exist. ClickException where --pairs is missing, or for no policy."""
        for policy in self.policies:
            check_policy(policy)
        sharing = [policy for policy in self.policies if shares_gpus(policy)]
        if sharing and self.pairs is None:
            raise click.ClickException(
                f"{sharing[0]} lets jobs share GPUs, and nothing says how fast they are then: add --pairs"
            )
        if self.pairs is not None and not sharing:
            raise click.ClickException(
                f"--pairs is for policies under which jobs share GPUs: add one ({' or '.join(SHARING)}), like "
                "--policy fixed:16:sjf-bsbf, or leave it out"
            )

    def choices(self, default_rates: Sequence[float], pairs: PairTable | None) -> list[PolicyChoice]:
        """Each policy, Charterer once for each rate; the noise of what it learns from is the same each time.

        ``pairs``: for the policies under which jobs share GPUs.
        """
        choices = []
        for policy in self.policies:
            if policy != "charterer":
                choices.append(PolicyChoice(policy, pairs=pairs if shares_gpus(policy) else None))
                continue
            for rate in sorted(set(self.rates or default_rates)):
                choices.append(PolicyChoice(policy, rate, random.Random(0).gauss if self.learn else None))
        return choices


policy_options = option_group(
    "policy",
    PolicyOptions,
    click.option(
        "--policy",
        "policies",
        multiple=True,
        default=("charterer", "as-asked", "as-asked:0"),
        help="May be repeated; see above.",
    ),
    click.option(
        "--pays",
        "rates",
        multiple=True,
        type=FiniteRange(0, _HIGHEST_RATE),
        help="Dollars per job-hour saved, may be repeated. Default: rates around the cost of a job-hour.",
    ),
    click.option(
        "--pairs",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="CSV with columns application, beside, kept: the part of its speed that a job keeps on a GPU beside one "
        "of the other application; for sjf-ffs and sjf-bsbf.",
    ),
    click.option(
        "--learn", is_flag=True, help="Charterer does not know the curves: it learns them from the jobs' reports."
    ),
)


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How the results are shown. ``budget``: dollars a month; ``processes``: None for one per core."""

    budget: str | None
    processes: int | None
    output: str
    picture: Path | None
    page: Path | None

    def amount(self) -> Money | None:
        """The budget. ValueError where it is none."""
        if self.budget is None:
            return None
        problem = f"--budget {self.budget} is no budget: give dollars a month from 0 on"
        try:
            amount = Money.given(self.budget)
        except ValueError as error:
            raise ValueError(problem) from error
        if amount.micros < 0:
            raise ValueError(problem)
        return amount

    def check(self) -> None:
        """CannotDraw for a picture of an unknown format."""
        if self.picture is not None:
            file_format(self.picture)


output_options = option_group(
    "show",
    OutputOptions,
    click.option("--budget", help="Dollars a month, drawn beside the spend. Default: none; of a cluster: its budgets."),
    click.option("--processes", type=click.IntRange(1), help="Simulations at the same time. Default: one per core."),
    click.option("-o", "--output", type=click.Choice(FORMATS), default="table", help="Format on stdout."),
    click.option(
        "--picture", type=click.Path(dir_okay=False, path_type=Path), help="Write diagrams to FILE.svg or FILE.png."
    ),
    click.option(
        "--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write a single self-contained page."
    ),
)
