"""The command ``purser``: each subcommand is imported when it is called, so that --help is instant."""

from purser.cli.main import main

__all__ = ["main"]
