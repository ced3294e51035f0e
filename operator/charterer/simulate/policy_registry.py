"""The policies that can be simulated side by side, by name, and a simulation of one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from charterer.domain.ids import Rate
from charterer.domain.job import Widths
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.simulate.engine.policy import Policy
from charterer.simulate.engine.result import Result
from charterer.simulate.engine.scenario import Scenario, Terms, class_of
from charterer.simulate.engine.workload import Submission
from charterer.simulate.knowledge import exact_profiles
from charterer.simulate.knowledge.ground_truth import Application, timed
from charterer.simulate.knowledge.learning import Exact, Knowledge, from_reports
from charterer.simulate.policies.baselines import ByUtilisation, FixedFleet, Order, RequestedGpus, RequestedWidth
from charterer.simulate.simulation import Simulation

NAMES = ("charterer", "as-asked", "fixed:NODES[:fifo|shortest|fair]", "utilisation[:LOW-HIGH]")


class UnknownPolicy(ValueError):
    """No policy of that name; the message lists those that there are."""


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A policy with its setting. ``rate``: dollars an hour of job life, for the operator's planner only.

    ``scatter``: that planner knows no curves but learns them, from reports that scatter by these standard normal
    deviates; None where it knows them.
    """

    text: str
    rate: float | None = None
    scatter: Callable[[], float] | None = None

    @property
    def label(self) -> str:
        """As it is shown."""
        text = f"{self.text} --learn" if self.scatter is not None else self.text
        return text if self.rate is None else f"{text} at ${self.rate:g} per job-hour"


@dataclass(frozen=True, slots=True)
class AnyWidth:
    """Each job may run at every width that its application can, and would rather run at the one it was asked for."""

    applications: Mapping[str, Application]

    def asked(self, submission: Submission) -> int:
        """The width that its owner asked for, or the next one that its application can run at."""
        offered = self.applications[submission.application].widths
        return min((gpus for gpus in offered if gpus >= submission.gpus), default=offered[-1])

    def __call__(self, submission: Submission) -> Terms:
        offered = self.applications[submission.application].widths
        return Terms(Widths(offered[0], self.asked(submission), offered[-1]))


def check(text: str) -> None:
    """UnknownPolicy where ``text`` names none, or with a setting that cannot be."""
    baseline(text, lambda _: 1, lambda _, __: 0.0)


def simulate(scenario: Scenario, choice: PolicyChoice) -> Result:
    """The scenario under that policy; the operator's planner knows the applications' curves exactly, or learns them."""
    applications = scenario.applications

    def seconds(submission: Submission, gpus: int) -> float:
        return applications[submission.application].seconds_left(0.0, gpus)

    policy = baseline(choice.text, AnyWidth(applications).asked, seconds)
    if policy is not None:
        return Simulation(scenario, policy, Exact({})).run()
    if choice.rate is not None:
        budget = replace(scenario.budget, fixed_rate=Rate(choice.rate / 3600.0))
        scenario = replace(scenario, budget=budget)
    if choice.scatter is not None:
        learnable = {name: timed(one, 1.0 / one.rates[0][one.widths[0]]) for name, one in applications.items()}
        scenario = replace(scenario, applications=learnable)
    by_class = {class_of(name): application for name, application in scenario.applications.items()}
    knowledge: Knowledge
    if choice.scatter is None:
        knowledge = Exact(exact_profiles.profiles(by_class, scenario.pools[0].gpu_type, scenario.restart_seconds))
    else:
        knowledge = from_reports(scenario, by_class, choice.scatter)
    return Simulation(scenario, partial(plan, memo=Memo()), knowledge).run()


def baseline(text: str, asked: RequestedGpus, seconds: Callable[[Submission, int], float]) -> Policy | None:
    """The policy of a name; None for the operator's own. UnknownPolicy.

    ``asked``: the width that a job's owner asked for. ``seconds``: how long a job takes at a width.
    """
    name, _, setting = text.partition(":")
    match name:
        case "charterer" if not setting:
            return None
        case "as-asked" if not setting:
            return RequestedWidth(asked)
        case "fixed":
            nodes, _, order = setting.partition(":")
            if not nodes.isdigit() or not int(nodes):
                raise UnknownPolicy(f"{text}: {nodes!r} is no number of nodes: write it like fixed:16 or fixed:16:fair")
            if order and order not in {one.value for one in Order}:
                raise UnknownPolicy(f"{text}: {order!r} is no order: use one of {', '.join(Order)}")
            return FixedFleet(int(nodes), asked, Order(order or Order.FIFO), seconds)
        case "utilisation":
            return ByUtilisation(asked, *_percents(text, setting or "50-80"))
    raise UnknownPolicy(f"{text!r} is no policy: use one of {', '.join(NAMES)}")


def _percents(text: str, setting: str) -> tuple[float, float]:
    low, _, high = setting.partition("-")
    if not low.isdigit() or not high.isdigit() or not 0 < int(low) < int(high) <= 100:
        raise UnknownPolicy(f"{text}: {setting!r} is no range of percents: write it like utilisation:50-80")
    return int(low) / 100, int(high) / 100
