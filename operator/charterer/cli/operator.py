"""``charterer operator``: the operator."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from pathlib import Path
from typing import Any

import click

from charterer.domain.cost_row import CostRecording
from charterer.domain.money import Price
from charterer.domain.snapshot import OperatorLimits


def _price(_: click.Context, __: click.Parameter, text: str | None) -> Price | None:
    """Parse a price an hour of at least 0. Raises BadParameter."""
    try:
        price = None if text is None else Price.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if price is not None and price < Price(0):
        raise click.BadParameter(f"{text} is less than 0")
    return price


_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


def log_formatter(form: str) -> logging.Formatter:
    """The format of log lines: text, or one JSON object each with the time in UTC."""
    if form == "text":
        return logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    from pythonjsonlogger.json import JsonFormatter

    keys = {"asctime": "time", "levelname": "level", "name": "logger"}
    names = "%(asctime)s %(levelname)s %(name)s %(message)s"
    formatter = JsonFormatter(names, datefmt="%Y-%m-%dT%H:%M:%SZ", rename_fields=keys)
    formatter.converter = time.gmtime
    return formatter


@click.command()
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), envvar="KUBECONFIG", help="Default: the service account."
)
@click.option("--context", help="Context of the kubeconfig. Default: its current one.")
@click.option(
    "--pod-name", envvar="POD_NAME", default=socket.gethostname, help="Begins its identity in the leader election."
)
@click.option(
    "--namespace",
    envvar="POD_NAMESPACE",
    default="charterer-system",
    show_default=True,
    help="Namespace of the Lease and Secret.",
)
@click.option("--host", default="0.0.0.0", show_default=True, help="Address to listen on.")
@click.option("--http-port", default=8080, show_default=True, help="For /healthz and /readyz; 0: any free.")
@click.option("--metrics-port", type=int, help="For /metrics, to everybody who reaches it. Default: not served.")
@click.option("--progress-port", default=8443, show_default=True, help="For the pods' progress reports (TLS); 0: any.")
@click.option("--progress-url", default="", help="Where pods reach it. Default: the Service charterer-progress.")
@click.option(
    "--progress-certificate",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder with tls.crt, tls.key and ca.crt for it, such as a mounted Secret. Default: it makes its own.",
)
@click.option("--survey-seconds", default=15.0, show_default=True, help="Seconds between two surveys of a quiet pool.")
@click.option("--moving-survey-seconds", default=1.0, show_default=True, help="The same while nodes start or end.")
@click.option("--resync-seconds", default=300.0, show_default=True, help="Seconds between full lists of the cluster.")
@click.option("--max-nodes", type=click.IntRange(min=0), help="Most nodes of all pools together. Default: no limit.")
@click.option(
    "--max-dollars-per-hour",
    metavar="DOLLARS",
    callback=_price,
    help="Most dollars an hour of all nodes together, at worst prices, such as 500.00. Default: no limit.",
)
@click.option(
    "--cost-record",
    metavar="PLACE",
    default="",
    help="Where the record of costs is: a folder, s3://BUCKET/PREFIX, gs:// or az://. Default: costs are not recorded.",
)
@click.option(
    "--cost-record-label",
    "cost_record_labels",
    metavar="KEY",
    multiple=True,
    help="Key of a label of jobs that is recorded; may be repeated.",
)
@click.option(
    "--cost-record-users",
    is_flag=True,
    help="Record who created a job: its annotation charterer.dev/created-by, which an admission policy must write.",
)
@click.option(
    "--not-adopted",
    multiple=True,
    type=click.Choice(("Job", "JobSet", "TrainJob", "RayJob")),
    help="A kind of objects of teams that is not adopted, whatever their labels say; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Change nothing, in the cluster or a cloud: log what would be done.")
@click.option("--job-metrics", is_flag=True, help="Metrics of each job: as many series as there are jobs.")
@click.option("--log-level", type=click.Choice(_LEVELS, case_sensitive=False), default="INFO", show_default=True)
@click.option("--log-format", type=click.Choice(("text", "json")), default="text", show_default=True)
def operator(
    survey_seconds: float,
    moving_survey_seconds: float,
    log_level: str,
    log_format: str,
    max_nodes: int | None,
    max_dollars_per_hour: Price | None,
    cost_record: str,
    cost_record_labels: tuple[str, ...],
    cost_record_users: bool,
    not_adopted: tuple[str, ...],
    **settings: Any,
) -> None:
    """Run the operator until it is stopped.

    Several may run: one leads, the others stand by. The operator keeps no state of its own outside the cluster and
    the cloud, so it may be killed at any time.
    """
    from charterer import app
    from charterer.app.tracing import TracesUnavailable
    from charterer.cluster.credentials import NoAccess
    from charterer.controller.surveys import SurveyPace

    lines = logging.StreamHandler()
    lines.setFormatter(log_formatter(log_format))
    logging.basicConfig(level=log_level.upper(), handlers=[lines])
    limits = OperatorLimits(max_nodes, max_dollars_per_hour)
    recording = CostRecording(cost_record, cost_record_labels, cost_record_users)
    pace = SurveyPace(quiet_seconds=survey_seconds, moving_seconds=moving_survey_seconds)
    try:
        # the other options have the names of the fields of Settings
        own = app.Settings(
            **settings, surveys=pace, limits=limits, cost_recording=recording, not_adopted=frozenset(not_adopted)
        )
        asyncio.run(app.run(own))
    except (NoAccess, TracesUnavailable) as error:
        raise click.ClickException(str(error)) from error
