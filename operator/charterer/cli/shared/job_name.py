"""The name of a TrainingJob as people give it."""

from __future__ import annotations

import click

_PREFIXES = ("tj", "trainingjob", "trainingjobs", "trainingjob.charterer.dev", "trainingjobs.charterer.dev")


def job_name(given: str) -> str:
    """The name in ``tj/NAME``, ``trainingjob/NAME`` or ``NAME``; click.BadParameter for another kind."""
    kind, slash, name = given.rpartition("/")
    if slash and kind.lower() not in _PREFIXES:
        raise click.BadParameter(f"{given!r}: only TrainingJobs are meant; write tj/NAME (and -n NAMESPACE)")
    if not name:
        raise click.BadParameter(f"{given!r} names no job; write tj/NAME")
    return name
