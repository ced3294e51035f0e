"""The demo in steps: simulation, cluster, charts, cloud, operator, replay, summary."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import yaml
from rich.console import Console

from demo import building, clouds, picture, scenario, summary
from demo.building import Build
from demo.cloud import Cloud
from demo.cluster import Cluster, check, start
from demo.columns import Column, really_run
from demo.comparison import Simulated
from demo.first_look import look, pictures
from demo.kube import RETRIABLE, Access, Kube, KubeError
from demo.live import Screen
from demo.money import micros
from demo.observer import Observer
from demo.pace import Json, Pace
from demo.programs import SYSTEM, DemoError, Programs, charterer
from demo.replay import Replay
from demo.scenario import IDLE_SECONDS, Scenario
from demo.summary import Summary
from tests.testbed import ports

OPERATOR_ACCOUNT = "charterer"

TO_TRY = (
    "kubectl get trainingjobs -A",
    "kubectl get gpubudgets,gpupools,gpurentals",
    "kubectl get events -A --field-selector reportingComponent=charterer.dev/operator"
    " --sort-by=.metadata.creationTimestamp",
    "kubectl describe gpupools",
    "kubectl describe trainingjob -n research imagenet-79",
    "charterer plan  # it is in .venv/bin",
    "charterer explain tj/imagenet-79 -n research",
)
"""Commands for inspecting a demo that was started with --keep."""
MEASURED = Path(__file__).parent / "data" / "plain-jobs.json"
"""Results of `python -m tests.bench.versus_karpenter`: plain Jobs on Karpenter."""
_CHARTS = Path(__file__).resolve().parents[1] / "charts"
_START_SECONDS = 300.0
"""Time limit in seconds for a program's start. A program that ends meanwhile is reported at once.

The operator took 220 s on two cores with a load of 30.
"""
_TAIL_SECONDS = 900.0
"""Seconds after the window within which all jobs must end."""
_SETTLE_SECONDS = 300.0
_MARKER = ".charterer-demo"
_CHARTERER = "/apis/charterer.dev/v1alpha1"


@dataclass(slots=True)
class Steps:
    """Prints the steps of the demo with the seconds since its start."""

    console: Console
    begun: float = field(default_factory=time.monotonic)

    @property
    def elapsed(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self.begun

    def say(self, what: str) -> None:
        """Print the start of a step."""
        self.console.print(rf"[dim]\[{self.elapsed:5.1f} s][/dim] {what}", highlight=False, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class Stage:
    """The running parts of the demo when the replay begins."""

    cluster: Cluster
    programs: Programs
    kube: Kube
    session: aiohttp.ClientSession
    cloud: Cloud
    metrics_url: str


async def run(of: Scenario, kind: str, out: Path, console: Console, keep: bool) -> Summary:
    """Run the demo with its files in ``out``, which is emptied first, and stop all processes that it has started.

    Missing programs of the cluster are built during the simulation. ``kind`` is the kind of cluster. With ``keep``
    everything runs until cancelled. If an exception is raised, the last lines of the programs' logs are printed first.
    """
    steps = Steps(console)
    check(kind)
    empty(out)
    async with AsyncExitStack() as stack:
        built = await _building(of, out, steps, stack)
        simulated = await _simulated(of, out, steps)
        if built is not None:
            steps.say("the same hour is really run as soon as the control plane is there")
            await built.done(console)
        programs = Programs(out)
        stack.callback(programs.stop)
        try:
            stage = await _set(of, kind, out, steps, programs, stack)
            result = await _play(of, stage, simulated, out, steps)
        except Exception:
            console.print(programs.tails(), style="dim", highlight=False, markup=False, soft_wrap=True)
            raise
        if keep:
            _invite(stage.cluster, console, of.pace)
            await programs.watch()
        return result


async def _building(of: Scenario, out: Path, steps: Steps, stack: AsyncExitStack) -> Build | None:
    """Start to build missing programs. Closing the stack stops the build. None if nothing is missing."""
    command = building.lacking(of.cloud)
    if not command:
        return None
    log = out / "build.log"
    steps.say(f"a control plane is being fetched or built meanwhile, once per machine; the log is {log}")
    built = await Build.start(command, log)
    stack.push_async_callback(built.stop)
    return built


async def simulate(of: Scenario, out: Path, console: Console) -> Simulated:
    """Run the part of the demo that needs no cluster. Its files are in ``out``, which is emptied first."""
    empty(out)
    steps = Steps(console)
    simulated = await _simulated(of, out, steps)
    steps.say("done; without SIMULATE=1 (--simulate) Charterer is then really run, too")
    return simulated


async def _simulated(of: Scenario, out: Path, steps: Steps) -> Simulated:
    steps.say(f"simulating an hour of {len(of.jobs)} jobs; this needs no cluster")
    return await look(of, measured(of) if of.cloud == "karpenter" else None, out, steps.console, steps.say)


def empty(out: Path) -> None:
    """Empty the directory. Raises DemoError if it contains files other than an earlier demo's."""
    marker = out / _MARKER
    if out.exists() and any(out.iterdir()):
        if not marker.exists():
            raise DemoError(
                f"{out} contains other files than those of an earlier demo; choose another folder with --out"
            )
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    marker.touch()


async def _set(of: Scenario, kind: str, out: Path, steps: Steps, programs: Programs, stack: AsyncExitStack) -> Stage:
    """Start everything that must run before the first job."""
    steps.say(f"starting a control plane ({kind}); logs are in {out}")
    cluster = start(kind, out / "cluster", programs)
    stack.callback(cluster.stop)
    steps.say("helm install: charts/charterer-crds, charts/charterer")
    _install(cluster, clouds.VALUES[of.cloud])
    session = await stack.enter_async_context(aiohttp.ClientSession())
    kube = await stack.enter_async_context(Kube(Access.of(cluster.kubeconfig)))
    steps.say(f"starting {clouds.NAMES[of.cloud]}{clouds.WITHOUT[of.cloud]}")
    rented, pools = await clouds.start(of, cluster, kube, out, programs, session, stack)
    steps.say(f"applying demo/manifests, sped up {of.pace.factor} times (the applied ones: {out / 'applied'})")
    now = datetime.now(UTC)
    _apply(of, now, cluster, pools, out / "applied")
    steps.say("starting the operator (charterer operator)")
    metrics_url = await _start_operator(cluster, session, programs)
    return Stage(cluster, programs, kube, session, rented, metrics_url)


def _install(cluster: Cluster, values: Iterable[str]) -> None:
    """Install the charts as a user would, but without replicas.

    The demo runs the programs, because kwok runs no containers.
    """
    cluster.helm("install", "charterer-crds", str(_CHARTS / "charterer-crds"))
    cluster.helm(
        "install",
        "charterer",
        str(_CHARTS / "charterer"),
        f"--namespace={SYSTEM}",
        "--create-namespace",
        "--set=replicas=0",
        *values,
    )


def _apply(of: Scenario, now: datetime, cluster: Cluster, pools: Iterable[Json], folder: Path) -> None:
    folder.mkdir()
    files: dict[str, Iterable[Json]] = {
        "namespace": scenario.load("namespace"),
        "budget": [scenario.budget(of, now)],
        "pools": pools,
        "profiles": scenario.profiles(of),
    }
    for name, documents in files.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump_all(documents, sort_keys=False))
        cluster.kubectl("apply", "--server-side", f"--filename={folder / name}.yaml")


async def _start_operator(cluster: Cluster, session: aiohttp.ClientSession, programs: Programs) -> str:
    """Start the operator, wait until it is ready, and return the URL of its metrics."""
    http, metrics, progress = (ports.reserve() for _ in range(3))
    kubeconfig = cluster.service_account_kubeconfig(SYSTEM, OPERATOR_ACCOUNT)
    programs.start(
        "operator",
        charterer(
            "operator",
            f"--kubeconfig={kubeconfig}",
            "--host=127.0.0.1",
            f"--http-port={http}",
            f"--metrics-port={metrics}",
            f"--progress-port={progress}",
            f"--progress-url=https://localhost:{progress}",
            "--survey-seconds=1",
            "--moving-survey-seconds=0.25",
        ),
        {"POD_NAME": "demo", "POD_NAMESPACE": SYSTEM},
    )

    async def ready() -> bool:
        try:
            async with session.get(f"http://127.0.0.1:{http}/readyz", timeout=aiohttp.ClientTimeout(total=1)) as answer:
                return answer.status == 200
        except RETRIABLE:
            return False

    await programs.until(ready, "the operator is ready", _START_SECONDS)
    programs.keep("operator")
    return f"http://127.0.0.1:{metrics}"


async def _play(of: Scenario, stage: Stage, simulated: Simulated, out: Path, steps: Steps) -> Summary:
    """Replay the hour, and make its summary and its picture."""
    console, begun = steps.console, steps.elapsed
    seconds = of.window[1] - of.window[0]
    steps.say(f"replaying {len(of.jobs)} jobs submitted within {seconds / 3600:.0f} h")
    replay = Replay(stage.kube, of)
    with Screen(console, of.pace.factor) as screen:
        observer = Observer(stage.kube, stage.session, of, replay, stage.cloud, stage.metrics_url, screen.show)
        await _replay(stage, replay, observer, of.pace.demo_seconds(seconds) + _TAIL_SECONDS)
    ledger, bill = await _ledger(stage.kube), await stage.cloud.bill()
    spent = [(view.at, view.money.spent) for view in observer.views]
    real = really_run(replay.jobs, spent, bill.micros / 1e6, bill.machines)
    result = summary.summarise(
        of,
        replay.jobs,
        simulated=simulated,
        run=real,
        cloud=stage.cloud.name,
        ledger_micros=ledger,
        bill=bill,
        demo_seconds=steps.elapsed - begun,
        reports=replay.answers,
    )
    files = pictures(out)
    (out / "summary.json").write_text(result.json())
    (out / "timeline.csv").write_text(picture.timeline_csv(observer.views))
    (out / "jobs.csv").write_text(summary.jobs_csv(replay.jobs, simulated.columns))
    (out / "run.json").write_text(real.json())
    picture.draw(of, simulated.columns, picture.Run(real, observer.views), result.headline, files)
    steps.say("done")
    console.print(summary.rendered(result))
    console.print(
        f"Picture, now with the real run: {files[0]}; numbers: {out / 'summary.json'}, {out / 'jobs.csv'}",
        highlight=False,
        soft_wrap=True,
    )
    return result


def measured(of: Scenario) -> Path | None:
    """Return the file with the results of plain Jobs on Karpenter, None if they are for other jobs."""
    jobs = Column.of(json.loads(MEASURED.read_text())).jobs
    return MEASURED if {job.name for job in jobs} == {job.name for job in of.jobs} else None


async def _replay(stage: Stage, replay: Replay, observer: Observer, most_seconds: float) -> None:
    """Replay, and wait until the last node has ended and its cost is settled."""
    async with asyncio.TaskGroup() as tasks:
        background = [tasks.create_task(stage.programs.watch()), tasks.create_task(observer.run())]
        try:
            async with asyncio.timeout(most_seconds):
                await replay.run()
        except TimeoutError as late:
            names = ", ".join(name for name, job in replay.jobs.items() if not job.finished)
            raise DemoError(f"these jobs have not ended after {most_seconds:.0f} s: {names}") from late
        await stage.programs.until(lambda: _settled(stage), "all nodes are given back and paid", _SETTLE_SECONDS)
        for task in background:
            task.cancel()


async def _settled(stage: Stage) -> bool:
    """Return whether no machine is billed any more, and all remaining rentals are in the budgets' ledgers."""
    try:
        rentals = await stage.kube.items(f"{_CHARTERER}/gpurentals")
        budgets = await stage.kube.items(f"{_CHARTERER}/gpubudgets")
        folded = {uid for budget in budgets for uid in budget.get("status", {}).get("folded", ())}
        return folded >= {rental["metadata"]["uid"] for rental in rentals} and not (await stage.cloud.bill()).open_lines
    except (*RETRIABLE, KubeError):
        return False


async def _ledger(kube: Kube) -> int:
    """Return the cost of ended rentals in the budgets' ledgers, in micro-dollars."""
    budgets = await kube.items(f"{_CHARTERER}/gpubudgets")
    return sum(micros(budget.get("status", {}).get("lifetime", "0")) for budget in budgets)


def to_try(pace: Pace) -> tuple[str, ...]:
    """Return commands for a kept demo at this pace."""
    idle = round(pace.demo_seconds(IDLE_SECONDS))
    simulate = f"charterer simulate --from-cluster --policy charterer --policy as-asked:{idle}"
    return (*TO_TRY, f"{simulate}  # ten idle minutes, at the demo's pace")


def _invite(cluster: Cluster, console: Console, pace: Pace) -> None:
    console.print("Everything is still running. Try in another terminal (Ctrl-C here stops everything):", style="bold")
    for line in (f"export KUBECONFIG={cluster.kubeconfig}", *to_try(pace)):
        console.print(f"  {line}", highlight=False, soft_wrap=True)
