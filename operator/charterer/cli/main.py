"""The command ``charterer`` with its subcommands, each imported only when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import click

from charterer import __version__

_COMMANDS: Mapping[str, tuple[str, str]] = {
    "plan": (
        "charterer.cli.plan.command:plan",
        "Show what Charterer would do now and why, and what more or less money would buy.",
    ),
    "explain": ("charterer.cli.explain.command:explain", "Explain why a job has this many GPUs of this pool now."),
    "logs": ("charterer.cli.logs:logs", "Print what a job's pods print, or what is kept of a run whose pods are gone."),
    "simulate": ("charterer.cli.simulate.command:simulate", "Simulate a workload under policies side by side."),
    "run": ("charterer.cli.run:run", "Run the operator until it is stopped."),
    "crds": ("charterer.cli.crds:crds", "Print the CustomResourceDefinitions of this version."),
    "fakecloud": ("charterer.fakecloud.main:main", "Run a process that behaves like a cloud with GPU machines."),
}


class _LazyGroup(click.Group):
    """A group whose commands are imported only when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="charterer")
def main() -> None:
    """Rents GPU nodes and gives them to training jobs, so that they finish as soon as a money budget allows.

    In a cluster, Helm installs it:

    \b
      helm install charterer-crds charts/charterer-crds
      helm install charterer charts/charterer --namespace charterer --create-namespace

    Then apply a GPUBudget, a GPUPool and TrainingJobs, and watch `kubectl get trainingjobs`. `charterer plan` and
    `charterer explain` say why things happen.
    """
