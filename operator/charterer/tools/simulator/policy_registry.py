"""The policies that can be simulated side by side, by name. The module also runs the simulation of a single policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from charterer.domain.ids import Rate
from charterer.domain.job import SpotPolicy, Widths
from charterer.gpu_types import slice_profile
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.engine.events import Knowledge
from charterer.tools.simulator.engine.world import Policy
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_profiles, learning_from_reports
from charterer.tools.simulator.model.ground_truth import Application, with_step_times
from charterer.tools.simulator.model.node_market import MOST_NODES
from charterer.tools.simulator.model.pairs import FILE_MECHANISM, PairTable
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.policies.baselines import (
    SCALE_DOWN_SECONDS,
    FixedFleet,
    PreemptiveFleet,
    PreemptiveOrder,
    QueueOrder,
    RequestedGpus,
    RequestedWidth,
    SecondsAt,
    UtilisationAutoscaler,
)
from charterer.tools.simulator.policies.queues import PartnerRank, best_benefit, first_fit
from charterer.tools.simulator.simulation import Simulation

SHARING: Mapping[str, PartnerRank] = {"sjf-ffs": first_fit, "sjf-bsbf": best_benefit}
"""The orders of a fixed fleet in which jobs share GPUs. Each order has its rank of partners."""
_ORDERS = (*QueueOrder, *PreemptiveOrder, *SHARING)
POLICY_NAMES = ("charterer", "as-asked[:IDLE-SECONDS]", f"fixed:NODES[:{'|'.join(_ORDERS)}]", "utilisation[:LOW-HIGH]")
_MOST_IDLE_SECONDS = 31_536_000


class UnknownPolicy(ValueError):
    """No policy has that name. The message lists the names."""


class CannotLearn(ValueError):
    """An application's speeds cannot be learned. The message says what to add."""


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A policy with its settings.

    ``text``: the policy's name, with its setting.
    ``rate``: dollars per job-hour saved, for the operator's planner only.
    ``noise``: draws standard normal numbers for trainers' reports, from which the operator's planner then learns all
    curves. None if the planner knows the curves.
    ``pairs``: the fractions of their speeds that jobs keep beside each other on a GPU. None if jobs do not share GPUs
    under this policy.
    """

    text: str
    rate: float | None = None
    noise: Callable[[], float] | None = None
    pairs: PairTable | None = None

    def world(self, scenario: Scenario) -> Scenario:
        """The scenario. If the policy has a table of pairs, jobs may share GPUs in the scenario."""
        if self.pairs is None:
            return scenario
        pools = tuple(replace(pool, sharing=FILE_MECHANISM) for pool in scenario.pools)
        return replace(scenario, pairs=self.pairs, pools=pools)

    @property
    def label(self) -> str:
        """The name in tables and pictures."""
        text = f"{self.text} --learn" if self.noise is not None else self.text
        return text if self.rate is None else f"{text} at ${self.rate:g} per job-hour"


@dataclass(frozen=True, slots=True)
class ApplicationWidths:
    """Terms by which a job may use every GPU type and width of its application, and spot nodes too. The job prefers the
    width that its owner asked for.
    """

    applications: Mapping[str, Application]

    def asked(self, submission: Submission) -> int:
        """The width that the owner asked for, or if the application cannot run on that width, the next width on which
        it can.
        """
        widths = self.applications[submission.application].widths
        return min((gpus for gpus in widths if gpus >= submission.gpus), default=widths[-1])

    def __call__(self, submission: Submission) -> JobTerms:
        application = self.applications[submission.application]
        widths, slices = application.widths, tuple(filter(None, map(slice_profile, application.gpu_types)))
        return JobTerms(Widths(widths[0], self.asked(submission), widths[-1], slices), spot=SpotPolicy.ALLOWED)


def check_policy(text: str) -> None:
    """Raise UnknownPolicy if ``text`` names no policy, or has an invalid setting."""
    baseline_policy(text, lambda _: 1, lambda *_: 0.0)


def simulate_scenario(
    scenario: Scenario, choice: PolicyChoice, tell: Callable[[float], None] | None = None
) -> SimulationResult:
    """Simulate the scenario under that policy. The operator's planner either knows the true curves or learns them.

    Raises CannotLearn if the curves cannot be learned. ``tell``: as in ``Simulation.run``.
    """
    applications = scenario.applications

    def seconds(submission: Submission, gpu_type: str, gpus: int) -> float:
        return applications[submission.application].seconds_left(0.0, gpu_type, gpus)

    policy = baseline_policy(choice.text, ApplicationWidths(applications).asked, seconds)
    if policy is not None:
        return Simulation(choice.world(scenario), policy, ExactKnowledge({})).run(tell)
    if choice.rate is not None:
        budget = replace(scenario.budget, fixed_rate=Rate(choice.rate / 3600.0))
        scenario = replace(scenario, budget=budget)
    if choice.noise is not None:
        learnable = {name: _learnable(application) for name, application in applications.items()}
        scenario = replace(scenario, applications=learnable, terms=ApplicationWidths(learnable))
    by_class = {class_of(name): application for name, application in scenario.applications.items()}
    knowledge: Knowledge
    if choice.noise is None:
        knowledge = ExactKnowledge(exact_profiles(by_class, scenario.restart_seconds, scenario.resize_seconds))
    else:
        knowledge = learning_from_reports(scenario, by_class, choice.noise)
    return Simulation(scenario, partial(plan, memo=Memo(), verdicts=False), knowledge).run(tell)


def _learnable(application: Application) -> Application:
    """The application with step times, on the widths that all of its GPU types have. A width that one type lacks is
    left out.

    Raises CannotLearn if no width is left.
    """
    common = set(application.widths)
    for epochs in application.rates.values():
        common &= epochs[0].keys()
    if not common:
        raise CannotLearn(
            f"{application.name}: to be learned, it needs a number of GPUs for which --speeds gives the seconds on "
            f"each of {', '.join(application.gpu_types)}"
        )
    rates = {
        gpu_type: [{gpus: epoch[gpus] for gpus in sorted(common)} for epoch in epochs]
        for gpu_type, epochs in application.rates.items()
    }
    return with_step_times(Application(application.name, application.ends, rates), application.reference_seconds)


def baseline_policy(text: str, asked: RequestedGpus, seconds: SecondsAt) -> Policy | None:
    """The policy of a name, or None for the operator's own planner. Raises UnknownPolicy for a name that does not
    exist.

    ``asked``: the width that a job's owner asked for. ``seconds``: seconds that a job takes on GPUs of a type.
    """
    name, _, setting = text.partition(":")
    match name:
        case "charterer" if not setting:
            return None
        case "as-asked":
            if setting and not (setting.isdecimal() and int(setting) <= _MOST_IDLE_SECONDS):
                raise UnknownPolicy(
                    f"{text}: {setting!r} is no number of idle seconds up to {_MOST_IDLE_SECONDS}: write it like "
                    "as-asked:600"
                )
            return RequestedWidth(asked, float(setting) if setting else SCALE_DOWN_SECONDS)
        case "fixed":
            nodes, _, order = setting.partition(":")
            if not nodes.isdecimal() or not 0 < int(nodes) <= MOST_NODES:
                raise UnknownPolicy(
                    f"{text}: {nodes!r} is no number of nodes up to {MOST_NODES}: write it like fixed:16 or "
                    "fixed:16:fair"
                )
            if order and order not in _ORDERS:
                raise UnknownPolicy(f"{text}: {order!r} is no order: use one of {', '.join(_ORDERS)}")
            return _fixed(int(nodes), order, asked, seconds)
        case "utilisation":
            return UtilisationAutoscaler(asked, *_percents(text, setting or "50-80"))
    raise UnknownPolicy(f"{text!r} is no policy: use one of {', '.join(POLICY_NAMES)}")


def _fixed(nodes: int, order: str, asked: RequestedGpus, seconds: SecondsAt) -> FixedFleet:
    if order in set(PreemptiveOrder):
        return PreemptiveFleet(nodes, asked, PreemptiveOrder(order))
    if order in SHARING:
        return FixedFleet(nodes, asked, QueueOrder.SHORTEST, seconds, SHARING[order])
    return FixedFleet(nodes, asked, QueueOrder(order or QueueOrder.FIFO), seconds)


def shares_gpus(text: str) -> bool:
    """Whether jobs share GPUs under the policy of that name."""
    return text.rpartition(":")[2] in SHARING


def _percents(text: str, setting: str) -> tuple[float, float]:
    low, _, high = setting.partition("-")
    if not low.isdecimal() or not high.isdecimal() or not 0 < int(low) < int(high) <= 100:
        raise UnknownPolicy(f"{text}: {setting!r} is no range of percents: write it like utilisation:50-80")
    return int(low) / 100, int(high) / 100
