"""docs/troubleshooting.md and docs/reasons.md: tables of all words and of every sentence that tells a reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Final, NamedTuple

from charterer.api.words.conditions import CLOUD_REASONS, CONDITION_REASONS, CONDITION_TYPES
from charterer.api.words.jobs import FINISH_REASONS, JOB_STATES, REASONS
from charterer.api.words.words import (
    BUDGET_STATES,
    EVENT_REASONS,
    POOL_SET_STATES,
    POOL_STATES,
    PROFILE_STATES,
    RENTAL_PHASES,
    RUN_EVENTS,
    Meaning,
)
from charterer.domain.budget import GPU_HOUR, Selector
from charterer.domain.ids import BudgetId, InstanceId, NodeName, PoolId, RentalId
from charterer.domain.job import CostLimit, FinishKind
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.node_demands import LackingRoom, NodeTaint, Requirement, UnmetLabel, UntoleratedTaint
from charterer.domain.option import Option
from charterer.domain.plan import ReasonCode
from charterer.domain.pool import ExpectedWait
from charterer.domain.reasons import jobs, nodes, options, waits
from charterer.domain.reasons.fact import Both, Fact, OnlyObserved, RunsOn, Wanted
from charterer.domain.target import TargetRef
from charterer.domain.time import Calendar, Grant, Period, parse_instant

# One example of each sentence that gives a reason, by the code of the reason.


_POOL, _NODE, _OTHER = PoolId("a100"), RentalId("a100-1"), RentalId("a100-2")
_FOUR = Option(_POOL, 4, 1.0, Price.parse("8"))
_EIGHT = Option(_POOL, 8, 1.8, Price.parse("16"))
_AT, _LATER = parse_instant("2026-05-04T10:00:00Z"), parse_instant("2026-05-04T18:30:00Z")
_BUDGET, _INSTANCE, _NAME = BudgetId("team"), InstanceId("i-7"), NodeName("node-7")
_PARENT = BudgetId("company")
_GRANT = Grant(date(2027, 1, 1), date(2027, 9, 30))
_BEGINS, _ENDS = parse_instant("2027-01-01T00:00:00Z"), parse_instant("2027-10-01T00:00:00Z")
_TYPE = "NVIDIA-H100-80GB-HBM3"
_JOB, _SELECTOR = "research/train", Selector((("team", "research"),))
_ASKED = options.Request(8, 16, ("A100",))
_FULL = waits.PoolFull(_POOL, 4, "spec.maxNodes allows", 12)
_CHOSEN = options.Chosen(_FOUR, 11_520.0, Money.of(26.0), None, True)
_FASTER = options.Faster(_EIGHT, 4_080.0, Money.of(8.0), Money.of(7.11), Money.of(3.6))
_IN_ZONE = Requirement("topology.kubernetes.io/zone", "In", ("us-east-1b",))
_OF_VOLUME = _IN_ZONE._replace(volume="PersistentVolumeClaim checkpoints")
_LATE = waits.LateNodes(_POOL, ExpectedWait(1_200.0, 600.0, 3_600.0, 40.0, True), None)


def _dollars(amount: str) -> Money:
    return Money.parse(amount)


def _hourly(amount: str) -> Price:
    return Price.parse(amount)


EXAMPLES: Final[Mapping[ReasonCode, tuple[Fact, ...]]] = {
    ReasonCode.BUDGET_OPTIMAL: (
        options.Chosen(_FOUR, 11_520.0, Money.of(26.0), _FASTER, False),
        Both(_CHOSEN, jobs.WouldPay(_EIGHT, jobs.InQuietHours(_LATER))),
        Both(_CHOSEN, jobs.WouldPay(_EIGHT, jobs.MovedOften(2, 2))),
        Both(_CHOSEN, jobs.WouldPay(_EIGHT, jobs.DidNotJoin())),
        Both(_CHOSEN, jobs.WouldPay(_EIGHT, jobs.AboveMaxCost(CostLimit(_dollars("40"))))),
        Both(_CHOSEN, jobs.WouldPay(_EIGHT, jobs.LateForTarget(_LATER))),
        Both(_CHOSEN, jobs.WouldPay(_EIGHT, jobs.BeingMeasured(4, _LATER))),
        Both(_CHOSEN, jobs.WouldPay(_EIGHT, jobs.HoldsSession())),
        Both(_CHOSEN, jobs.NoCellRuns(_AT, _LATER)),
        Both(_CHOSEN, options.WholeNode(_EIGHT, Money.of(96.0), -3_600.0)),
        Both(_CHOSEN, jobs.WouldPay(_EIGHT, jobs.NeverSaved())),
        Both(_CHOSEN, jobs.WouldPay(_EIGHT, jobs.MovedLately(_AT, 30.0, _LATER))),
        Both(_CHOSEN, jobs.WouldPay(_EIGHT, jobs.CameFrom(_EIGHT, _LATER))),
        Both(_CHOSEN, options.TargetKept(_LATER)),
        Both(_CHOSEN, options.TargetNotPaid(_AT, _LATER)),
        Both(_CHOSEN, options.TargetOutOfReach(_AT, _LATER)),
        Both(_CHOSEN, options.TargetMissed(_AT, _LATER)),
        Both(
            _CHOSEN,
            waits.RoomAllotted(waits.BetterAlone(_EIGHT), _POOL, 3, 0.05, False, _hourly("20"), _hourly("30")),
        ),
        Both(_CHOSEN, _LATE),
    ),
    ReasonCode.RIGID: (_CHOSEN,),
    ReasonCode.NO_CURVE: (options.UnknownSpeed(_FOUR, 11_520.0, Money.of(26.0), 10_800.0),),
    ReasonCode.CHEAPEST_OVER_BUDGET: (_CHOSEN,),
    ReasonCode.PLACING: (_CHOSEN,),
    ReasonCode.MOVE_PAYS: (
        options.MovePays(_FOUR, 11_520.0, _EIGHT, 4_080.0, Money.of(8.0), Money.of(9.0)),
        options.MovePays(_FOUR, 11_520.0, _EIGHT, 4_080.0, Money.of(-8.0), Money.of(9.0)),
        options.MovePays(_EIGHT, 7_200.0, _FOUR, -4_080.0, Money.of(-8.0), None),
    ),
    ReasonCode.MAKES_ROOM: (options.MakesRoom(_FOUR, _EIGHT, 4_080.0, Money.of(-2.0)),),
    ReasonCode.NODE_EMPTIED: (options.NodeEmptied(_FOUR, _NODE, _OTHER, Money.of(12.5)),),
    ReasonCode.SLOW_NODE: (
        options.SlowNode(_EIGHT, _NODE, 1, 1.4, 5_400.0, Money.of(12.5)),
        nodes.PodWasSlow(1, _JOB),
        nodes.HeldUp(),
    ),
    ReasonCode.WIDTH_NO_LONGER_ALLOWED: (
        jobs.Forced(jobs.WidthNotAllowed(8, 1, 4), _FOUR),
        jobs.Forced(jobs.GpuTypeNotAllowed("H100"), _FOUR),
        jobs.Forced(jobs.SliceNotAllowed("1g.10gb"), _FOUR),
        jobs.Forced(jobs.SliceNotAllowed("mps-2"), _FOUR),
        jobs.Forced(jobs.SpotNotAllowed(), _FOUR),
        jobs.Forced(jobs.VariantNotAllowed("outofcore"), _FOUR),
        jobs.Forced(jobs.VariantNotMeasured("outofcore"), _FOUR),
    ),
    ReasonCode.WAITING_FOR_NODE: (Wanted(_EIGHT, waits.WaitsForNodes((_NODE, _OTHER))),),
    ReasonCode.WAITING_FOR_FREE_GPUS: (
        waits.WaitsForOldNode(_EIGHT, 120.0, Money.of(1.2), 240.0, _LATER),
        waits.WaitsForFragment(_FOUR, 2, 120.0, Money.of(1.2), _LATER),
        Wanted(_EIGHT, Both(waits.StartsAbout(_EIGHT, _LATER), options.HadNow(_FOUR, 7_200.0, Money.of(12.5)))),
    ),
    ReasonCode.WAITING_FOR_BUDGET: (
        Wanted(_EIGHT, waits.CostsTooMuch(Money.of(80.0), Money.of(12.0))),
        Wanted(_EIGHT, waits.SpendsTooMuch(_hourly("16"), _hourly("40"), _hourly("50"))),
        Wanted(_EIGHT, waits.OthersWaitForMoney()),
    ),
    ReasonCode.HARD_LIMIT: (
        Wanted(_EIGHT, waits.HardLimitUsed(Money.of(20.0), Money.of(5.0), Money.of(500.0))),
        nodes.HardLimitNear(Money.of(480.0), Money.of(15.0), Money.of(500.0)),
        Wanted(_EIGHT, waits.GpuHoursUsed(_TYPE, 1_996 * GPU_HOUR, 1_997 * GPU_HOUR, 2_000 * GPU_HOUR, _BUDGET, _ENDS)),
        Wanted(_EIGHT, waits.GpuHoursAhead(_TYPE, 700 * GPU_HOUR, 690 * GPU_HOUR, 2_000 * GPU_HOUR, _BUDGET, _LATER)),
        nodes.GpuHoursNear(_TYPE, 1_996 * GPU_HOUR, 2_000 * GPU_HOUR, _BUDGET, _ENDS),
        Wanted(_EIGHT, waits.GrantAhead(_GRANT, _BEGINS)),
        Wanted(_EIGHT, waits.GrantEndsSoon(_GRANT, _ENDS)),
        Wanted(_EIGHT, waits.GrantOver(_GRANT, _ENDS)),
    ),
    ReasonCode.MAX_COST: (
        jobs.TooDear(CostLimit(_dollars("20")), ZERO, _EIGHT, 31.5, None),
        jobs.TooDear(CostLimit(_dollars("2"), _BUDGET), ZERO, _EIGHT, 3.5, 600),
        jobs.MaxCostSpent(_dollars("19.20"), CostLimit(_dollars("20"))),
        jobs.MaxCostSpent(_dollars("19.20"), CostLimit(_dollars("20"), _BUDGET)),
    ),
    ReasonCode.HOURLY_LIMIT: (
        Wanted(_EIGHT, waits.AboveHourlyLimit(_hourly("16"), _hourly("10"))),
        Wanted(_EIGHT, waits.HourlyLimitUsed(_hourly("16"), _hourly("32"), _hourly("40"))),
        nodes.HourlyLimitPassed(_hourly("48"), _hourly("40")),
    ),
    ReasonCode.OPERATOR_LIMIT: (
        Wanted(_EIGHT, waits.OperatorNodesUsed(40, 40)),
        Wanted(_EIGHT, waits.OperatorHourlyUsed(_hourly("16"), _hourly("500"), _hourly("496"))),
    ),
    ReasonCode.STOPPED: (Wanted(_EIGHT, waits.RentsNothing()), nodes.NodesDrained()),
    ReasonCode.POOL_FULL: (
        Wanted(_EIGHT, _FULL),
        Wanted(_EIGHT, waits.RoomAllotted(_FULL, _POOL, 1, None, False, _hourly("40"), _hourly("30"))),
        Wanted(_EIGHT, waits.RoomAllotted(_FULL, _POOL, 3, None, True, _hourly("40"), _hourly("30"))),
        Wanted(_EIGHT, waits.RoomIsMade(waits.PoolFull(_POOL, 1, "its group takes", None), (_JOB,), 2)),
    ),
    ReasonCode.POOL_COOLING: (Wanted(_EIGHT, Both(waits.PoolCools(), _LATE)),),
    ReasonCode.RENTAL_UNREADABLE: (Wanted(_EIGHT, waits.RentalUnreadable()),),
    ReasonCode.NOT_ASKED_YET: (Wanted(_EIGHT, waits.CloudSilent()), waits.NotAskedYet((_POOL,))),
    ReasonCode.NO_OPTION: (
        options.NoPool(),
        waits.NoPoolSelected(_BUDGET, _SELECTOR, ((_POOL, ("team=vision",)),)),
        options.NoKnownPool(_ASKED),
        options.OtherGpuTypes(_ASKED, ("A10", "H100")),
        options.OnlySlices(_ASKED, ("1g.10gb",)),
        options.OnlySlices(_ASKED, ("mps-2",)),
        options.OnlySpot(_ASKED),
        options.NodesDoNotFit(_ASKED, _POOL, (UnmetLabel(_IN_ZONE, ("us-east-1a", "us-east-1c")),), 2),
        options.NodesDoNotFit(_ASKED, _POOL, (UnmetLabel(Requirement("team", "Exists"), ()),), 0),
        options.NodesDoNotFit(_ASKED, _POOL, (UnmetLabel(_OF_VOLUME, ("us-east-1a",)),), 0),
        options.NodesDoNotFit(_ASKED, _POOL, (UntoleratedTaint(NodeTaint("team", "vision", "NoSchedule")),), 1),
        options.NodesDoNotFit(_ASKED, _POOL, (LackingRoom("memory", 2 << 40, 512 << 30),), 0),
        options.PodsDoNotFit(_POOL, 3, 16, 8, None, 12),
        options.PodsDoNotFit(_POOL, 40, 3, 8, 20, 12),
        options.PoolsTooSmall(_ASKED, _POOL, 4, "A100"),
        Both(options.NothingFits(_ASKED), options.PoolTrouble(_POOL, "")),
        Both(options.NothingFits(_ASKED), options.PaidByOthers(((_POOL, _BUDGET, "spec.price.committed"),))),
        RunsOn(Both(options.NothingFits(_ASKED), waits.PoolsLeftOut(_BUDGET, _SELECTOR, (_POOL,)))),
    ),
    ReasonCode.NO_BUDGET: (jobs.NoBudgetSelects("research"),),
    ReasonCode.INVALID: (jobs.JobInvalid("(the words of who refuses it)"),),
    ReasonCode.CHECKING: (jobs.TemplateChecked(),),
    ReasonCode.SUSPENDED: (jobs.JobSuspended(), jobs.JobSuspended(queued=True)),
    ReasonCode.NOT_ADOPTED: (
        jobs.TargetWithdrawn(TargetRef("batch/v1", "Job", "whisper", "")),
        jobs.TargetRefused(TargetRef("batch/v1", "Job", "whisper", ""), "(what is wrong with it)"),
    ),
    ReasonCode.NO_GPU_WANTED: (
        jobs.NoGpuWanted(0, None, None, None),
        jobs.NoGpuWanted(7, _AT, _hourly("2.48"), 150.0),
        jobs.GivenBack(275.0, 272.0),
        jobs.NodeGoesIdle(),
    ),
    ReasonCode.FINISHED: (jobs.JobEnded(FinishKind.COMPLETE),),
    ReasonCode.DELETED: (jobs.JobDeleted(),),
    ReasonCode.LOST_NODE: (
        nodes.RentalDeleted(_NODE),
        nodes.RentalGoesAway(_NODE, "(why it was released)"),
        nodes.NodeDeleted(_NAME),
        nodes.NodeNotReady(_NAME, 30.0),
        nodes.NoReadyNode(_INSTANCE, 900.0),
        nodes.PodHangs("train-r1-0", _NAME, 600.0),
        jobs.PredecessorLives(2),
        Both(nodes.NodeDeleted(_NAME), options.RestartedAtOnce(_FOUR)),
    ),
    ReasonCode.POD_REFUSED: (nodes.RefusedPod(_NAME, "pod train-r1-0: (the kubelet's own words)"),),
    ReasonCode.NOT_STARTING: (
        jobs.NotRunning(1, 600.0, "(the cluster's own words)"),
        jobs.NeverStarts(1, "(the cluster's own words)"),
    ),
    ReasonCode.STALLED: (jobs.Stalls(1, 3_600.0),),
    ReasonCode.NOT_REGROUPED: (jobs.NotJoined("train-r1", ""), jobs.NotRegrouped("train-r1", 2)),
    ReasonCode.NOT_BELIEVED: (jobs.NotBelieved("(why the record is not believed)"),),
    ReasonCode.NOT_RECORDED: (nodes.NotOnRecord("train-r1 in namespace research", 1_200.0),),
    ReasonCode.BACK_OFF: (
        jobs.BacksOffForRecord(1),
        jobs.BacksOff(1, _LATER, True, "pod sft-r1-0 exited with 1: CUDA out of memory"),
    ),
    ReasonCode.IDLE: (
        nodes.Idle(_NODE),
        nodes.IdleUntilEnd(_NODE, _LATER),
        nodes.TakesNoPart(_NODE, "Node gpu-3 is cordoned: kubectl uncordon gpu-3"),
    ),
    ReasonCode.NOT_NEEDED: (nodes.NotWaitedFor(_NODE), nodes.GangGone(_JOB)),
    ReasonCode.DEMAND: (nodes.JobDemand(_JOB, _EIGHT, Money.of(20.0)), nodes.AnyDemand(Money.of(20.0))),
    ReasonCode.COMMITTED: (nodes.PaidForAnyway(Money.of(20.0)), nodes.ThereAnyway()),
    ReasonCode.BUDGET_DELETED: (Wanted(_EIGHT, waits.BudgetEnds()), nodes.BudgetGoes(_BUDGET)),
    ReasonCode.CLOCK_BEHIND: (Wanted(_EIGHT, waits.ClockBehind()),),
    ReasonCode.PARENT_UNKNOWN: (
        Wanted(_EIGHT, waits.ParentMissing(_BUDGET, _PARENT)),
        Wanted(_EIGHT, waits.ParentsInCircle((_BUDGET, _PARENT))),
        Wanted(_EIGHT, waits.PeriodsDiffer(_BUDGET, Calendar("UTC", Period.WEEK), _PARENT, Calendar("UTC"))),
        Wanted(_EIGHT, waits.RelativeUnreadable(_PARENT)),
    ),
    ReasonCode.POOL_DELETED: (Wanted(_EIGHT, waits.PoolEnds()), nodes.PoolClosed("(why the pool is closed)")),
    ReasonCode.INCOMPLETE_GANG: (nodes.GangIncomplete(_JOB, 4, 3),),
    ReasonCode.INTERRUPTION: (
        nodes.TakenBack(_INSTANCE, _NODE, True, ""),
        nodes.TakenBack(_INSTANCE, _NODE, True, "condition GPUMissing on Node gpu-7", True),
        nodes.NodeEnds(_NODE, _LATER),
        options.RunsMeanwhile(_FOUR, _EIGHT),
    ),
    ReasonCode.OBSERVE_ONLY: (
        OnlyObserved(_CHOSEN),
        OnlyObserved(Wanted(_EIGHT, waits.NoNodeNow())),
        OnlyObserved(Wanted(_EIGHT, waits.WouldBeRented(1))),
    ),
    ReasonCode.PLANNING_FAILED: (waits.NoPlan("(the problem that is told of the object)"),),
}
"""The tables in reading order."""


# docs/reasons.md: every sentence that gives a reason, with example facts.


_REASONS_INTRODUCTION: Final = """# Reasons

<!-- Generated by `python -m charterer.api.schema --reasons`: change operator/charterer/domain/reasons instead. -->

Every sentence that tells why Charterer does something or does not, by the word that it comes with. Statuses, Events,
`charterer explain` and `charterer plan` say the same. [Troubleshooting](troubleshooting.md) says what each word means
and what to do. The numbers and names are examples; words in brackets are those of others.
"""


def reasons_page() -> str:
    """The whole page."""
    return "\n".join([_REASONS_INTRODUCTION, *_reason_lines()])


def _reason_lines() -> Iterator[str]:
    for code in sorted(EXAMPLES):
        yield f"## {code}\n"
        yield from (f"- {facts.sentence()}" for facts in EXAMPLES[code])
        yield ""


_INTRODUCTION: Final = """# Troubleshooting: a job is waiting or fails

<!-- Generated by `python -m charterer.api.schema --troubleshooting`: change operator/charterer/api/words instead. -->

Start with `charterer doctor`: it checks the operator, pools, prices, permissions and budgets, and says what to do. Then
look at one job, from the outside in. With `edit` or `view` in the job's namespace, and nothing else, the first three
lines work, and `charterer doctor -n NAMESPACE` checks the jobs there:

    kubectl get tj NAME -n NAMESPACE -o wide        # State and Why
    charterer explain tj/NAME -n NAMESPACE          # every option of the job in time and money, and what would help
    kubectl describe tj NAME -n NAMESPACE           # conditions with sentences, and Events
    kubectl get gpubudgets,gpupools,gpurentals      # the money, the clouds, the machines

Below is every word that Charterer writes, with its meaning and what to do. A dash: there is nothing to do.
"""


class WordTable(NamedTuple):
    """The words that a user meets in one place."""

    title: str
    explanation: str
    words: Mapping[str, Meaning]


TABLES: Final[tuple[WordTable, ...]] = (
    WordTable("State of a TrainingJob", "The column State of `kubectl get tj`.", JOB_STATES),
    WordTable(
        "Why",
        "The column Why of `kubectl get tj -o wide`. The same words are reasons of a job's conditions, and of "
        "Events about jobs, and about rentals that are given back. [Reasons](reasons.md) has every sentence.",
        REASONS,
    ),
    WordTable(
        "How a TrainingJob ended",
        "The column Why of an ended job, and the reason of its condition Complete or Failed.",
        FINISH_REASONS,
    ),
    WordTable("State of a GPUBudget", "The column State of `kubectl get gbud`.", BUDGET_STATES),
    WordTable("State of a GPUPool", "The column State of `kubectl get gpool`.", POOL_STATES),
    WordTable("State of a GPUPoolSet", "The column State of `kubectl get gpset`.", POOL_SET_STATES),
    WordTable("Phase of a GPURental", "The column Phase of `kubectl get grent`.", RENTAL_PHASES),
    WordTable("State of a SpeedupProfile", "The column State of `kubectl get sprof`.", PROFILE_STATES),
    WordTable("Types of conditions", "In `status.conditions` of every kind.", CONDITION_TYPES),
    WordTable("Reasons of conditions", "The words above, and these:", CONDITION_REASONS),
    WordTable("Answers of clouds", "Reasons of the condition Ready and of Events of a GPUPool.", CLOUD_REASONS),
    WordTable(
        "Reasons of Events",
        "Words from the tables above are also reported as Events when they begin. These are the others.",
        {**EVENT_REASONS, **RUN_EVENTS},
    ),
)


def troubleshooting() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, *(line for table in TABLES for line in _lines(table))])


def _lines(table: WordTable) -> Iterator[str]:
    yield f"## {table.title}\n\n{table.explanation}\n"
    yield "| word | what it means | what to do |\n| --- | --- | --- |"
    for word in sorted(table.words):
        meaning = table.words[word]
        yield f"| `{word}` | {meaning.means} | {meaning.remedy or '—'} |"
    yield ""
