"""``charterer completion`` prints the script by which a shell completes commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes charterer's commands and options in a shell, and names of the cluster's objects.

    \b
    bash (4.4 or newer), in ~/.bashrc:
      source <(charterer completion bash)
    \b
    zsh, in ~/.zshrc:
      source <(charterer completion zsh)
    \b
    fish:
      charterer completion fish > ~/.config/fish/completions/charterer.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"this click has no completion for {shell}")
    click.echo(kind(ctx.find_root().command, {}, "charterer", "_CHARTERER_COMPLETE").source())
