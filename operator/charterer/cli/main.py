"""The command ``charterer`` with its subcommands, each imported only when it is called."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click
from click.shell_completion import CompletionItem

from charterer import __version__
from charterer.cli.parameters import stand_in
from charterer.sentences import nearest, similar_names, visible

_COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("charterer.cli.run:run", "Submit a job: a command, and the code of this directory."),
    "plan": (
        "charterer.tools.commands.plan.command:plan",
        "Show what Charterer would do now and why, and what more or less money would buy.",
    ),
    "report": (
        "charterer.tools.commands.report:report",
        "Show what Charterer saves on the last month's jobs, and what more money would bring.",
    ),
    "dashboard": (
        "charterer.tools.commands.dashboard.command:dashboard",
        "Show budgets, jobs, decisions and costs on a live page in your browser.",
    ),
    "explain": (
        "charterer.tools.commands.explain.command:explain",
        "Explain why a job has this many GPUs of this pool now.",
    ),
    "quote": (
        "charterer.tools.commands.explain.quote:quote",
        "Show what a job would cost and when it would end, before it is submitted.",
    ),
    "predict": (
        "charterer.tools.commands.predict:predict",
        "Show how long steps, checkpoints and start-ups of a class will take, before its first run.",
    ),
    "costs": (
        "charterer.tools.commands.costs.command:costs",
        "Show who spent what, for people, spreadsheets and FOCUS.",
    ),
    "doctor": (
        "charterer.tools.commands.doctor.command:doctor",
        "Check operator, pools, prices, permissions and budgets.",
    ),
    "logs": (
        "charterer.tools.commands.logs:logs",
        "Print what a job's pods print, or what is kept of a run whose pods are gone.",
    ),
    "simulate": ("charterer.tools.commands.simulate:simulate", "Simulate a workload under policies side by side."),
    "drain": ("charterer.tools.commands.drain:drain", "End all rented machines, before Charterer is uninstalled."),
    "preflight": (
        "charterer.tools.commands.preflight:preflight",
        "Check pools for what would fail, before money is spent.",
    ),
    "mcp": (
        "charterer.cli.mcp:mcp",
        "Answer agents that ask for plans, explanations, costs and quotes.",
    ),
    "notify": ("charterer.tools.commands.notify:notify", "Tell once what budgets spent, by webhook and pages."),
    "bill": ("charterer.tools.commands.bill:bill", "Compare what clouds bill with the record of costs."),
    "stop": (
        "charterer.tools.commands.drain:stop",
        "Rent nothing more, until `charterer resume`; end everything if asked to.",
    ),
    "resume": ("charterer.tools.commands.drain:resume", "Rent again after `charterer stop`."),
    "operator": ("charterer.cli.operator:operator", "Run the operator until it is stopped."),
    "crds": ("charterer.tools.commands.crds:crds", "Print the CustomResourceDefinitions of this version."),
    "completion": (
        "charterer.tools.commands.completion:completion",
        "Print the script that completes commands in a shell.",
    ),
    "fakecloud": ("charterer.tools.fakecloud.main:main", "Run a process that behaves like a cloud with GPU machines."),
}
_LONG = re.compile(r"\S{400,}")
_SHOWN = 100
"""Characters of a long word that an error shows: a file may be a single word of megabytes."""
_PREFIX = "CHARTERER_"
_VARIABLES = ("CHARTERER_COST_RECORD", "CHARTERER_FAKECLOUD_TOKEN", "CHARTERER_WEBHOOK_URL")
"""The variables that commands read."""


class _LazyGroup(click.Group):
    """A group whose commands are imported only when they are called.

    Wrong usage of any command ends with exit code 1 like any other error, because ``plan --detailed-exitcode`` uses 2.
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """As in click, with exit code 1 for wrong usage."""
        with _wrong_usage_exits_1():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """As in click, with exit code 1 for wrong usage, and without terminal control characters in errors."""
        with _wrong_usage_exits_1():
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As in click. The error for an unknown command lists similar ones."""
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"no command {args[0]!r}: {similar_names(args[0], _COMMANDS)}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names of the commands, without importing the commands."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        found = _COMMANDS.items()
        return [CompletionItem(name, help=summary) for name, (_, summary) in found if name.startswith(incomplete)]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        if ctx.resilient_parsing:  # a shell completes: what the command is made of is not needed
            return stand_in(cmd_name)
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])


@contextmanager
def _wrong_usage_exits_1() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        raise _WrongUsage(_readable(error.format_message()), error.ctx) from error
    except click.ClickException as error:
        raise click.ClickException(_readable(error.format_message())) from error


def _readable(message: str) -> str:
    return _LONG.sub(lambda found: f"{found[0][:_SHOWN]}…", visible(message))


class _WrongUsage(click.UsageError):
    exit_code = click.ClickException.exit_code


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="charterer")
def main() -> None:
    """Rents GPU nodes and gives them to training jobs, so that they finish as soon as a money budget allows.

    In a cluster, Helm installs it:

    \b
      helm install charterer-crds charts/charterer-crds
      helm install charterer charts/charterer --namespace charterer-system --create-namespace

    Then apply a GPUBudget, a GPUPool and TrainingJobs, and watch `kubectl get trainingjobs`. `charterer plan` and
    `charterer explain` say why things happen.
    """
    atexit.register(gc.freeze)  # At exit Python would otherwise collect cycles among all imports for half a second.
    for name in sorted(os.environ):
        hint = nearest(name, _VARIABLES, _PREFIX) if name.startswith(_PREFIX) and name not in _VARIABLES else ""
        if hint:
            click.echo(f"The variable {name} is not read: {hint}", err=True)
