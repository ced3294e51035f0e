"""``charterer mcp``: what agents may ask, by the Model Context Protocol. Its tools read, and cannot write.

The answers are those of ``charterer plan``, ``explain``, ``costs`` and ``quote`` with ``-o json``, with their schemas.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import click
from pydantic import BaseModel, Field

from charterer import __version__, client
from charterer.cluster.client import Body, Client
from charterer.cluster.credentials import Access
from charterer.cluster.errors import Withheld
from charterer.tools.commands.shared.answers import PrintedCosts
from charterer.tools.commands.shared.cluster import ClusterOptions, MayNotRead, cluster_options, read
from charterer.tools.commands.shared.options import record_option
from charterer.tools.commands.shared.planner_answers import PrintedExplanation, PrintedPlan, PrintedQuote

if TYPE_CHECKING:
    from mcp.server import MCPServer

# The tools.


@dataclass(frozen=True, slots=True)
class ReadOnly(ClusterOptions):
    """A cluster that is asked and never changed: a dry run passes, any other write is not sent."""

    def client(self, access: Access) -> Client:
        """A client that raises Withheld instead of writing."""
        return Client(access, withhold=_withhold)


def _withhold(method: str, path: str, body: Body) -> None:
    raise Withheld(method, path, 0, "ReadOnly", "not sent: charterer mcp changes nothing")


_INSTRUCTIONS: Final = (
    "Charterer rents GPU nodes and gives them to training jobs within a money budget. These tools read a cluster with "
    "the rights of whoever started them, and change nothing. Dollars are decimal texts, seconds are numbers."
)
_A = TypeVar("_A", bound=BaseModel)
Namespace = Annotated[str | None, Field(description="By default that of the kubeconfig's context.")]


def server(cluster: ReadOnly, record: str) -> MCPServer:
    """The server of a cluster. ``record``: the place of the record of costs, empty for none."""
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations

    made: MCPServer = MCPServer("charterer", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING")
    tool = made.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False), structured_output=True)
    one_by_one = threading.Lock()
    """A plan takes a processor for a while, and the tools run in threads."""

    def answered(model: type[_A], ask: Callable[[], object]) -> _A:
        try:
            with one_by_one:
                return model.model_validate(ask())
        except click.ClickException as error:
            raise ToolError(error.format_message()) from error

    @tool
    def plan(
        prices: Annotated[
            dict[str, str] | None, Field(description="What if a node of the pool cost this an hour: {a100: '2.10'}.")
        ] = None,
        amounts: Annotated[
            dict[str, str] | None, Field(description="What if the budget's amount were this: {research: '80000'}.")
        ] = None,
        manifests: Annotated[
            str, Field(description="What if this YAML were applied: TrainingJob, GPUPool, GPUBudget, SpeedupProfile.")
        ] = "",
        namespace: Namespace = None,
    ) -> PrintedPlan:
        """The actions of the present plan with their reasons, the price of time of each budget, and what-ifs."""
        return answered(PrintedPlan, lambda: _plan(cluster, prices or {}, amounts or {}, manifests, namespace))

    @tool
    def explain(
        job: Annotated[str, Field(description="NAME, tj/NAME, or KIND/NAME of the object that it was made for.")],
        namespace: Namespace = None,
    ) -> PrintedExplanation:
        """Why a job has this many GPUs of this pool now, or why it waits: its options in time and money."""
        return answered(PrintedExplanation, lambda: client.explain(job, cluster, namespace=namespace))

    @tool
    def costs(
        month: Annotated[str | None, Field(description="Such as 2026-11; by default this one.")] = None,
        by: Annotated[
            list[str] | None,
            Field(description="Keys: namespace (the default), class, user, label:KEY, pool, job, purpose, cause."),
        ] = None,
        budgets: Annotated[list[str] | None, Field(description="Only these GPUBudgets; by default all.")] = None,
    ) -> PrintedCosts:
        """Who spent what in a month, to the micro-dollar."""
        keys = by or ["namespace"]
        return answered(
            PrintedCosts, lambda: client.costs(cluster, month=month, record=record, budgets=budgets or (), by=keys)
        )

    @tool
    def quote(
        manifests: Annotated[
            str, Field(description="YAML of one TrainingJob that is not submitted, and what would be applied with it.")
        ],
        by: Annotated[
            str | None, Field(description="When it should be done: 2026-12-04T18:00:00Z, or a day such as friday.")
        ] = None,
        namespace: Namespace = None,
    ) -> PrintedQuote:
        """The cost and the end of a job that is not submitted yet, for three choices."""
        return answered(PrintedQuote, lambda: _quote(cluster, manifests, by, namespace))

    return made


def _plan(
    cluster: ClusterOptions,
    prices: Mapping[str, str],
    amounts: Mapping[str, str],
    manifests: str,
    namespace: str | None,
) -> object:
    from charterer.tools.commands.plan.command import planned
    from charterer.tools.commands.plan.one_namespace import own_plan_json
    from charterer.tools.commands.shared.one_namespace import own_jobs
    from charterer.tools.commands.shared.what_if import (
        WhatIf,
        budget_amount,
        planned_and_left_out,
        pool_price,
        sources_in,
    )

    objects, left_out = planned_and_left_out(sources_in("manifests", manifests))
    what_if = WhatIf(
        objects,
        tuple(pool_price(f"{pool}={price}") for pool, price in prices.items()),
        tuple(budget_amount(f"{budget}={amount}") for budget, amount in amounts.items()),
        left_out,
    )
    try:
        reading = read(cluster)
    except MayNotRead:
        if what_if:
            raise
        return own_plan_json(own_jobs(cluster, namespace))
    return planned(cluster, reading, what_if, namespace or reading.namespace).plain


def _quote(cluster: ClusterOptions, manifests: str, by: str | None, namespace: str | None) -> object:
    from charterer.tools.commands.explain.quote import ByType, quote_json, quoted
    from charterer.tools.commands.shared.what_if import sources_in

    then = None if by is None else ByType().convert(by, None, None)
    reading = read(cluster)
    found = quoted(cluster, reading, sources_in("manifests", manifests), namespace or reading.namespace, then)
    return {**quote_json(found.answer), "nobodyActs": reading.trouble or None, "warnings": found.warnings}


@click.command()
@record_option(default="")
@cluster_options
def mcp(record: str, cluster: ClusterOptions) -> None:
    """Answer agents over stdin and stdout, by the Model Context Protocol: plan, explain, costs and quote.

    A program that speaks the protocol starts it. Its configuration names the command and its arguments, such as

    \b
      {"mcpServers": {"charterer": {"command": "charterer", "args": ["mcp", "--context", "prod"]}}}

    It reads with your rights and changes nothing: what the planner tries is a dry run, and any other write is not sent.
    It opens no file that an agent names; --record says where the record of costs is. It needs the protocol's SDK:
    pip install '.[mcp]' in a checkout.
    """
    if find_spec("mcp") is None:
        raise click.ClickException("answering agents needs the MCP SDK: pip install '.[mcp]' in a checkout")
    server(ReadOnly(*astuple(cluster)), record).run("stdio")
