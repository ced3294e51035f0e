"""``purser``: the operator, the schemas, the fake cloud."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import click

from purser import __version__

_COMMANDS: Mapping[str, str] = {
    "run": "purser.cli.run:run",
    "crds": "purser.cli.crds:crds",
    "fakecloud": "purser.fakecloud.main:main",
}


class _Lazy(click.Group):
    """A group whose commands are imported only when they are looked at."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="purser")
def main() -> None:
    """Rents GPU nodes and gives them to training jobs, so that they finish as soon as a money budget allows.

    In a cluster, Helm installs it:

    \b
      helm install purser-crds charts/purser-crds
      helm install purser charts/purser --namespace purser --create-namespace

    Then apply a GPUBudget, a GPUPool and TrainingJobs, and watch `kubectl get trainingjobs`.
    """
