"""The command ``charterer``. Each subcommand is imported when it is called, so that --help is instant."""

from charterer.cli.main import main

__all__ = ["main"]
