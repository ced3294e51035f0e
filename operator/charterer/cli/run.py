"""``charterer run``: the operator."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path
from typing import Any

import click

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@click.command()
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), envvar="KUBECONFIG", help="Default: the service account."
)
@click.option("--context", help="Context of the kubeconfig. Default: its current one.")
@click.option("--pod-name", envvar="POD_NAME", default=socket.gethostname, help="Identity in the leader election.")
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
@click.option("--survey-seconds", default=15.0, show_default=True, help="Seconds between two surveys of a quiet pool.")
@click.option("--moving-survey-seconds", default=1.0, show_default=True, help="The same while nodes start or end.")
@click.option("--resync-seconds", default=300.0, show_default=True, help="Seconds between full lists of the cluster.")
@click.option("--job-metrics", is_flag=True, help="Metrics of each job: as many series as there are jobs.")
@click.option("--log-level", type=click.Choice(_LEVELS, case_sensitive=False), default="INFO", show_default=True)
def run(survey_seconds: float, moving_survey_seconds: float, log_level: str, **settings: Any) -> None:
    """Run the operator until it is stopped.

    Several may run: one leads, the others stand by. The operator keeps no state of its own outside the cluster and
    the cloud, so it may be killed at any time.
    """
    from charterer import app
    from charterer.cluster.credentials import NoAccess
    from charterer.controller.surveys import SurveyPace

    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    pace = SurveyPace(quiet_seconds=survey_seconds, moving_seconds=moving_survey_seconds)
    try:
        asyncio.run(app.run(app.Settings(**settings, surveys=pace)))  # the other options are named like its fields
    except NoAccess as error:
        raise click.ClickException(str(error)) from error
