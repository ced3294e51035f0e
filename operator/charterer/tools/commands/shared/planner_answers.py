"""The values that plan, explain and quote print with ``-o json``, for their schemas (``answers``)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


class Printed(BaseModel):
    """Part of an answer."""

    model_config = ConfigDict(extra="allow")


Dollars = Annotated[str, Field(description="Dollars as a decimal text.")]
Seconds = Annotated[float, Field(description="Seconds.")]
Time = Annotated[str, Field(description="A time in UTC, as in RFC 3339.")]
ClassName = Annotated[str | None, Field(alias="class")]


class PrintedGPUs(Printed):
    """GPUs of a pool. ``slice`` and ``variant``: empty for whole GPUs and the job's own template. ``hourly``: what they
    cost an hour."""

    pool: str
    gpus: int | None = None
    slice: str | None = None
    variant: str | None = None
    hourly: Dollars | None = None


class PrintedLatePool(Printed):
    """A pool whose next node comes late. The keys from ``refusedPool`` on are there after a refusal."""

    name: str
    expectedSeconds: Seconds
    lowSeconds: Seconds
    highSeconds: Seconds
    basis: str
    refusedPool: str | None = None
    refusedAt: Time | None = None
    timesInARow: int | None = None
    askedAgainAt: Time | None = None
    kind: str | None = None
    code: str | None = None


class PrintedLossPlace(Printed):
    """Where most of a loss is."""

    namespace: str | None
    job_class: ClassName
    pool: str | None
    dollars: Dollars


class PrintedLossCause(Printed):
    """Dollars lost by a cause. ``known``: how that is known. ``toDo``: what lessens it."""

    cause: str
    dollars: Dollars
    known: str
    mostIn: PrintedLossPlace
    toDo: str


class PrintedLossOfClass(Printed):
    """What the jobs of a class lost."""

    namespace: str
    job_class: ClassName
    lost: Dollars
    largestCause: str


class PrintedLosses(Printed):
    """What of the dollars spent trained nothing."""

    spent: Dollars
    trained: Dollars
    notReported: Dollars
    lost: Dollars
    causes: list[PrintedLossCause]
    byJobs: list[PrintedLossOfClass]


class PrintedAnswer(Printed):
    """``nobodyActs``: why no operator carries out what is said; null while one leads. ``source``: set if the account
    may not read the whole cluster, so that the answer is what the operator wrote into statuses."""

    at: Time
    nobodyActs: str | None = None
    warnings: list[str] = []
    source: dict[str, str | None] | None = None


# charterer plan


class PrintedPlannedAction(Printed):
    """``action``: rent, release, start, move or stop. ``count``: nodes. ``onlyObserved``: it will not happen."""

    action: str
    subject: str
    how: str
    why: str
    count: int
    onlyObserved: bool


class PrintedFamilySums(Printed):
    """A budget's sums together with all budgets below it."""

    amount: Dollars
    spent: Dollars
    committed: Dollars
    hourlyAtMost: Dollars
    forecast: Dollars | None
    forecastLow: Dollars | None
    forecastHigh: Dollars | None


class PrintedInCurrency(Printed):
    """A budget's amount and spending in its own currency."""

    currency: str
    perDollar: str
    asOf: str
    amount: str
    spent: str


class PrintedLoan(Printed):
    """What a budget lends another one."""

    lender: str
    borrower: str
    amount: Dollars


class PrintedBudgetShare(Printed):
    """A share of a budget's money, or what is left for all others. ``part``: of the money."""

    name: str
    part: float
    jobs: int
    allowedPerHour: Dollars
    plannedPerHour: Dollars
    paysPerHourSaved: Dollars | None
    feasible: bool


class PrintedCommitment(Printed):
    """The use of a commitment in this period. ``nodeLessSaves``: what one node less would have saved."""

    pool: str
    used: Dollars
    unused: Dollars
    usedGpuHours: float
    unusedGpuHours: float
    partOfGpuHours: float
    nodeLessSaves: Dollars
    nodeMoreSaves: Dollars


class PrintedArrivals(Printed):
    """How often jobs come, and how that is known."""

    perHour: float
    basis: str
    batches: int


class PrintedAmountPoint(Printed):
    """What another amount would buy. ``times``: of today's amount. ``fit``: in which way jobs fit it."""

    times: float
    amount: Dollars
    spends: Dollars
    paysPerHourSaved: Dollars | None
    fit: str
    meanCompletionSeconds: Seconds | None
    secondsSavedByOneMoreDollar: Seconds | None
    partOfLoadServed: float
    poolsHaveRoom: bool


class PrintedMoreOrLess(Printed):
    """Amounts and what they buy."""

    smallestSufficient: Dollars
    largestUseful: Dollars
    amounts: list[PrintedAmountPoint]


class PrintedWithoutCapacity(Printed):
    """What the same jobs would cost without a kind of capacity. ``more`` is null if they could not be as fast."""

    kind: str
    pools: list[str]
    costs: Dollars
    more: Dollars | None
    timesAsLong: float | None
    moreThen: Dollars
    otherPoolsHaveRoom: bool
    jobsPerHourWithoutPool: float


class PrintedGpuHours(Printed):
    """An amount of GPU-hours of a budget. ``committed``: what is used, and what runs may hold until an orderly end.
    ``released``: the part of the amount for the time so far and the next ten days."""

    gpuType: str
    amount: float
    used: float
    committed: float
    released: float


class PrintedPlannedBudget(Printed):
    """``paysPerHourSaved``: the most that is paid to finish a job of weight 1 an hour earlier. ``spentFor``: dollars by
    cause."""

    name: str
    mode: str
    amount: Dollars
    period: str
    aim: Dollars
    inCurrency: PrintedInCurrency | None
    parent: str | None
    withDescendants: PrintedFamilySums | None
    loans: list[PrintedLoan]
    shares: list[PrintedBudgetShare]
    gpuHours: list[PrintedGpuHours]
    spent: Dollars
    spentFor: dict[str, Dollars]
    committed: Dollars
    inSight: Dollars
    toCome: Dollars
    commitmentsToCome: Dollars
    commitments: list[PrintedCommitment]
    arrivals: PrintedArrivals
    forecast: Dollars | None
    forecastLow: Dollars | None
    forecastHigh: Dollars | None
    allowedPerHour: Dollars
    nowPerHour: Dollars
    plannedPerHour: Dollars
    paysPerHourSaved: Dollars | None
    feasible: bool
    meanCompletionSeconds: Seconds | None
    moreOrLess: PrintedMoreOrLess | None
    withoutCapacity: list[PrintedWithoutCapacity]


class PrintedOperatorLimits(Printed):
    """The operator's own limits, null where there is none, and what counts against them."""

    nodes: int | None
    hourly: Dollars | None
    hasNodes: int
    hasHourly: Dollars


class PrintedScarcePool(Printed):
    """A pool with fewer nodes than jobs would take. ``limit``: what binds; the worths are beyond the price."""

    name: str
    limit: str
    nodes: int
    gpuHourWorth: Dollars | None
    nodeHourWorth: Dollars | None
    jobsWait: bool


class PrintedStage(PrintedGPUs):
    """GPUs until a part of the work is done."""

    untilPartOfWork: float


class PrintedClassPath(Printed):
    """The way of a part of the jobs of a class."""

    partOfJobs: float
    stages: list[PrintedStage]


class PrintedPlannedClass(Printed):
    """What a new job of a class is given."""

    budget: str
    job_class: ClassName
    weight: float
    arrivalsPerHour: float
    seconds: Seconds
    cost: Dollars
    paths: list[PrintedClassPath]


class PrintedComparedOption(PrintedGPUs):
    """An option from a job's status."""

    gpuType: str | None
    capacityType: str | None
    chosen: bool
    secondsLeft: Seconds | None
    costLeft: Dollars | None
    perHourSaved: Dollars | None
    rank: str | None
    nodes: str | None
    why: str | None


class PrintedPlannedJob(Printed):
    """``has``: its GPUs now; ``wants``: those that it is to have. ``message``: why. With rights in one namespace only,
    it has ``gpus``, ``pool``, ``eta``, ``cost`` and ``best`` instead."""

    namespace: str | None = None
    name: str
    state: str | None = None
    budget: str | None = None
    has: PrintedGPUs | None = None
    wants: PrintedGPUs | None = None
    secondsLeft: Seconds | None = None
    startsAbout: Time | None = None
    endsAbout: Time | None = None
    reason: str | None = None
    message: str | None = None
    gpus: int | None = None
    pool: str | None = None
    eta: Time | None = None
    cost: Dollars | None = None
    best: PrintedComparedOption | None = None


class PrintedProblem(Printed):
    """An object that cannot be used as it is."""

    kind: str
    namespace: str | None
    name: str
    field: str
    message: str


class PrintedPlanParts(Printed):
    """What a plan says; all but the jobs is absent with rights in one namespace only."""

    actions: list[PrintedPlannedAction] = []
    budgets: list[PrintedPlannedBudget] = []
    operatorLimits: PrintedOperatorLimits | None = None
    scarcePools: list[PrintedScarcePool] = []
    latePools: list[PrintedLatePool] = []
    classes: list[PrintedPlannedClass] = []
    jobs: list[PrintedPlannedJob] = []
    problems: list[PrintedProblem] = []


class PrintedAmountEffect(Printed):
    """What another amount would change in the rest of the period."""

    budget: str
    meanCompletionSecondsBefore: Seconds | None
    meanCompletionSeconds: Seconds | None
    moreSpent: Dollars | None
    jobsInSight: int
    jobsWithOtherGpus: int


class PrintedWhatIf(Printed):
    """The changes that were asked for, the actions that they add and drop, and the plan without them."""

    changes: list[str]
    effects: list[PrintedAmountEffect]
    actionsAdded: list[PrintedPlannedAction]
    actionsDropped: list[PrintedPlannedAction]
    asItIs: PrintedPlanParts


class PrintedPlan(PrintedAnswer, PrintedPlanParts):
    """The present plan. ``namespace``: the only one that the account may read."""

    namespace: str | None = None
    whatIf: PrintedWhatIf | None = None


# charterer explain and quote


class PrintedCount(Printed):
    """A figure that an option's numbers have in them, and how it is known."""

    what: str
    howMuch: str
    known: str


class PrintedJobOption(PrintedGPUs):
    """One option of a job. ``rank``: chosen, too dear, too slow or worse; ``perHourSaved``: beside the cheaper one."""

    chosen: bool
    secondsLeft: Seconds | None = None
    secondsUntilNode: Seconds | None = None
    secondsUntilFree: Seconds | None = None
    costLeft: Dollars | None = None
    costOfEmptyGPUs: Dollars | None = None
    perHourSaved: Dollars | None = None
    rank: str | None = None
    speed: float | None = None
    speedIs: str | None = None
    reports: int | None = None
    nodes: str | None = None
    held: str | None = None
    counts: list[PrintedCount] = []
    gpuType: str | None = None
    capacityType: str | None = None
    why: str | None = None


class PrintedRuledOutOption(PrintedGPUs):
    """An option that the job cannot have, and the reason ``why``."""

    secondsLeft: Seconds | None = None
    costLeft: Dollars | None = None
    why: str | None = None
    gpuType: str | None = None
    capacityType: str | None = None
    chosen: bool = False
    perHourSaved: Dollars | None = None
    rank: str | None = None
    nodes: str | None = None


class PrintedCondition(Printed):
    """``status``: True, False or Unknown; absent where only a true one is told."""

    status: str | None = None
    reason: str
    message: str


class PrintedEmptyNode(Printed):
    """The node of a job with GPUs that nobody uses. ``rental``: null while it is not rented."""

    rental: str | None
    gpus: int
    empty: int
    hourly: Dollars


class PrintedMoreNodes(Printed):
    """The job with some nodes more in the pool. ``option``: null if it stays the same."""

    pool: str
    nodes: int
    option: PrintedGPUs | None
    otherJobs: list[str]


class PrintedLeftAlone(Printed):
    """A width that is not tried, until a time."""

    gpuType: str
    gpus: int
    variant: str
    until: Time | None
    message: str


class PrintedWinningChange(PrintedGPUs):
    """What would make another option win: a rate, a price or more work left."""

    paysPerHourSaved: Dollars | None
    nodeHourly: Dollars | None
    workSecondsLeft: Seconds | None


class PrintedExplanation(PrintedAnswer):
    """Why a job has its GPUs, or waits. ``options`` is null if it is not planned for."""

    namespace: str
    name: str
    state: str | None
    summary: str
    reason: str | None
    message: str | None
    notStarting: str | None = None
    limits: dict[str, PrintedCondition]
    heldUp: dict[str, PrintedCondition]
    resizing: str | None
    sessions: str | None = None
    budget: str | None
    weight: float | None = None
    paysPerHourSaved: Dollars | None = None
    share: str | None = None
    workSecondsLeft: Seconds | None = None
    workKnown: bool | None = None
    options: list[PrintedJobOption] | None
    node: PrintedEmptyNode | None = None
    ruledOut: list[PrintedRuledOutOption]
    latePools: list[PrintedLatePool] = []
    moreNodes: list[PrintedMoreNodes] = []
    leftAlone: list[PrintedLeftAlone] | None = None
    unusedVariants: dict[str, str] | None = None
    changes: list[PrintedWinningChange] | None = None
    troubles: list[PrintedCondition] | None = None


class PrintedDollarRange(Printed):
    """Nine of ten outcomes lie between ``low`` and ``high``."""

    low: Dollars
    middle: Dollars
    high: Dollars


class PrintedSecondsRange(Printed):
    """Nine of ten outcomes lie between ``low`` and ``high``."""

    low: Seconds
    middle: Seconds
    high: Seconds


class PrintedQuotedChoice(PrintedGPUs):
    """``secondsAreFrom``: now, or its start where nobody knows when that is."""

    cost: PrintedDollarRange
    seconds: PrintedSecondsRange
    secondsAreFrom: str
    costOfEmptyGPUs: Dollars
    counts: list[PrintedCount]
    spread: list[PrintedCount]


class PrintedQuotedTarget(Printed):
    """Whether the job ends by a time. ``chance``: of the choice that is the cheapest to do so."""

    target: Time
    met: bool
    earliest: Time | None
    choice: PrintedQuotedChoice | None
    chance: float | None


class PrintedDelay(Printed):
    """How much later another job would end; null where that is not known."""

    job: str
    seconds: Seconds | None


class PrintedQuote(PrintedAnswer):
    """``choices``: cheapest, budget (what the budget pays for) and fastest; empty if the job cannot run. ``quote``: the
    part of it that is kept with the job."""

    namespace: str
    name: str
    canRun: bool
    reason: str | None
    message: str | None
    choices: dict[str, PrintedQuotedChoice]
    by: PrintedQuotedTarget | None = None
    delays: list[PrintedDelay]
    quote: dict[str, Any] | None
