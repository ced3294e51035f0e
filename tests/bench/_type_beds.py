"""Jobs measured on several GPU types, with the clusters of the papers that measured them (see ``types``)."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from charterer.domain.ids import Rate
from charterer.domain.job import Widths
from charterer.tools.simulator.model.ground_truth import Application, joined
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, new_budget
from charterer.tools.simulator.model.sim_job import SimJob
from charterer.tools.simulator.model.workload import Submission
from demo.condense import data_dir
from tests.bench import _gavel as measured
from tests.bench import _pollux as pollux
from tests.measured import EPOCHS, read_tables

RESTART_SECONDS = 30.0
_GAVEL_TYPES = {"V100": "v100", "P100": "p100", "K80": "k80"}
DOLLARS: Mapping[str, float] = {
    **{gpu_type: measured.GPU_HOURS[name] for gpu_type, name in _GAVEL_TYPES.items()},
    "T4": 0.978,
    "A100": 2.745,
}
"""On-demand dollars an hour of a GPU. K80, P100, V100: Google Cloud, us-central1, as in Gavel's paper; T4 and A100: a
quarter of g4dn.12xlarge ($3.912) and an eighth of p4d.24xlarge ($21.9576), AWS us-east-1, 2026-07-20; the README of the
benches has the source."""


@dataclass(frozen=True)
class Bed:
    """Jobs and the cluster. ``clusters``: GPUs by type. ``node_gpus``: of the nodes that Charterer rents."""

    name: str
    submissions: tuple[Submission, ...]
    applications: Mapping[str, Application]
    clusters: Mapping[str, int]
    node_gpus: Mapping[str, int]
    widths: tuple[int, ...]
    """Those on which the policies of the literature run a job."""
    elastic: bool

    def width(self, job: SimJob) -> int:
        """The width that was asked for, or the next one on which the job can run."""
        return self.asked(job.submission)

    def asked(self, submission: Submission) -> int:
        """The same for a submission."""
        possible = [gpus for gpus in self.applications[submission.application].widths if gpus in self.widths]
        return min((gpus for gpus in possible if gpus >= submission.gpus), default=possible[-1])

    @property
    def hourly(self) -> float:
        """Dollars an hour of the cluster."""
        return sum(count * DOLLARS[gpu_type] for gpu_type, count in self.clusters.items())

    def scenario(self, pools: Sequence[PoolModel], dollars_per_hour: float) -> Scenario:
        """The jobs on these pools."""
        return Scenario(
            pollux.START,
            self.submissions,
            self.applications,
            tuple(pools),
            new_budget(pollux.START, rate=Rate(dollars_per_hour / 3600.0)),
            self._terms,
            RESTART_SECONDS,
        )

    def _terms(self, submission: Submission) -> JobTerms:
        application = self.applications[submission.application]
        asked = self.asked(submission)
        if self.elastic:
            return JobTerms(Widths(application.widths[0], asked, application.widths[-1]))
        return JobTerms(Widths(asked, asked, asked))


# --- Gavel's jobs -----------------------------------------------------------------------------------------------------

_SCALES = ((1, 0.70), (2, 0.10), (4, 0.15), (8, 0.05))
"""GPUs of a job and how often (Gavel, §7.1, after Microsoft's trace)."""
_JOBS_PER_HOUR = 0.7
"""With them the cluster is nearly full, as where Gavel's paper compares."""


def _steps(gpu_type: str, kind: str, gpus: int) -> float:
    return measured.steps_per_second(_GAVEL_TYPES[gpu_type], kind, gpus)


def gavel(seed: int, jobs: int, elastic: bool) -> Bed:
    """Poisson arrivals; the minutes on V100 are 10^x with x uniform in 1.5-3 (8 of 10 jobs) or 3-4 (§7.1)."""
    draw = random.Random(seed)
    kinds = sorted({str(key).split("'")[1] for key in measured.throughputs()["v100"]})
    submissions, applications, at = [], {}, 0.0
    for number in range(jobs):
        at += draw.expovariate(_JOBS_PER_HOUR / 3600.0)
        (scale,) = draw.choices([gpus for gpus, _ in _SCALES], [share for _, share in _SCALES])
        kind = draw.choice([kind for kind in kinds if _steps("V100", kind, scale)])
        minutes = 10 ** (draw.uniform(1.5, 3.0) if draw.random() < 0.8 else draw.uniform(3.0, 4.0))
        steps = _steps("V100", kind, scale) * minutes * 60.0
        name = f"g{number}"
        widths = (1, 2, 4, 8) if elastic else (scale,)
        rates = {}
        for gpu_type in _GAVEL_TYPES:
            speeds = {gpus: _steps(gpu_type, kind, gpus) / steps for gpus in widths if _steps(gpu_type, kind, gpus)}
            if speeds:
                rates[gpu_type] = ((speeds),)
        applications[name] = Application(name, (1.0,), rates)
        submissions.append(Submission(name, at, name, scale))
    return Bed(
        "gavel",
        tuple(submissions),
        applications,
        {gpu_type: 12 for gpu_type in _GAVEL_TYPES},
        {gpu_type: 4 for gpu_type in _GAVEL_TYPES},
        (1, 2, 4, 8),
        elastic,
    )


# --- Sia's jobs -------------------------------------------------------------------------------------------------------

_SIA_TYPES = {"T4": ("aws", 4, 24), "A100": ("dgx", 8, 16)}
"""By type: name of the traces, GPUs of a node, GPUs of the cluster (Sia, §4.1, heterogeneous setting)."""


@cache
def _sia_applications() -> Mapping[str, Application]:
    """Each application on both types; the statistical tables are Pollux's, which Sia's jobs share."""
    made = {}
    for name in EPOCHS:
        folder = data_dir() / "pollux" / "traces" / name
        validations = {
            int(path.stem.removeprefix("validation-")): path.read_text() for path in folder.glob("validation-*.csv")
        }
        of_type = []
        for gpu_type, (trace, node_gpus, count) in _SIA_TYPES.items():
            texts = [
                (data_dir() / "sia" / "traces" / name / f"{kind}-{trace}.csv").read_text()
                for kind in ("placements", "scalability")
            ]
            tables = read_tables(name, validations, texts[0], texts[1], node_gpus)
            widths = [1, 2, *(4,) * (node_gpus > 4), *range(node_gpus, count + 1, node_gpus)]
            of_type.append(tables.application(pollux.PINNED.get(name, widths), gpu_type))
        made[name] = joined(of_type)
    return made


def sia(seed: int, jobs: int, elastic: bool) -> Bed:
    """Pollux's workload of that number."""
    return Bed(
        "sia",
        pollux.workload(seed)[:jobs],
        _sia_applications(),
        {gpu_type: count for gpu_type, (_, _, count) in _SIA_TYPES.items()},
        {gpu_type: node_gpus for gpu_type, (_, node_gpus, _) in _SIA_TYPES.items()},
        (1, 2, 4, 8, 16),
        elastic,
    )


BEDS: Mapping[str, Callable[[int, int, bool], Bed]] = {"gavel": gavel, "sia": sia}
