"""The settings of one process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from charterer.cluster.lease import LeaseTimes
from charterer.controller.learning.profile_writer import WriteIntervals
from charterer.controller.loop import LoopTiming
from charterer.controller.surveys import SurveyPace
from charterer.domain.cost_row import NO_RECORDING, CostRecording
from charterer.domain.snapshot import NO_LIMITS, OperatorLimits
from charterer.server.http import AGAIN_SECONDS


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings. A port may be 0 for any free port. The real port is logged. If ``kubeconfig`` is None, the service
    account is used.

    ``metrics_port`` None: metrics are not served. ``dry_run``: this process logs all mutations and sends none, while
    another process leads. A dry run does not record costs. ``progress_certificate``: the folder of a certificate that
    others make. None: the operator makes its own certificate. ``not_adopted``: kinds of teams' objects that are not
    adopted. ``report_seconds``: time between two reports of a pod, 1 to 300.
    """

    pod_name: str
    namespace: str
    kubeconfig: Path | None = None
    context: str | None = None
    host: str = "0.0.0.0"
    http_port: int = 8080
    metrics_port: int | None = None
    progress_port: int = 8443
    progress_url: str = ""
    progress_certificate: Path | None = None
    report_seconds: int = AGAIN_SECONDS
    resync_seconds: float = 300.0
    job_metrics: bool = False
    dry_run: bool = False
    limits: OperatorLimits = NO_LIMITS
    not_adopted: frozenset[str] = frozenset()
    surveys: SurveyPace = field(default_factory=SurveyPace)
    timing: LoopTiming = field(default_factory=LoopTiming)
    lease: LeaseTimes = field(default_factory=LeaseTimes)
    cost_recording: CostRecording = NO_RECORDING
    learning: WriteIntervals = field(default_factory=WriteIntervals)

    @property
    def url_for_pods(self) -> str:
        """The URL at which pods report progress."""
        return self.progress_url or f"https://{self.progress_service}"

    @property
    def progress_service(self) -> str:
        """The host name of the progress endpoint's Service."""
        return f"charterer-progress.{self.namespace}.svc"
