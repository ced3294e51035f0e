"""The option that names the record of costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any] | click.Command)


def record_option(**more: Any) -> Callable[[F], F]:
    """``--record PLACE``; ``more``: what else ``click.option`` takes, as whether it is required."""
    return click.option(
        "--record",
        metavar="PLACE",
        envvar="CHARTERER_COST_RECORD",
        help="The record of costs: a folder, s3://BUCKET/PREFIX, gs:// or az://. Default: $CHARTERER_COST_RECORD.",
        **more,
    )
