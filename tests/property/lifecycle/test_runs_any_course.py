"""Whatever pods, machines, planners and crashes do: one run at a time, and records that tell the truth."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from charterer.domain.ids import StepKey, StepKind
from charterer.domain.job import FinishKind
from charterer.domain.pod import Pod, PodPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import Step
from charterer.domain.time import after
from charterer.incremental import Memo
from charterer.lifecycle import LifecycleView, next_steps
from charterer.lifecycle.run import Placed, goes_on, misplaced, run_step
from tests import lanes
from tests.property.lifecycle.run_world import MACHINES, RunWorld, Stale

_ROUNDS = 600
"""More rounds than any course needs to end: each does every step there is."""


class RunsOnAnyCourse(RuleBasedStateMachine):
    """Steps are decided on a snapshot and carried out later, in any order, or never: the operator crashed."""

    def __init__(self) -> None:
        super().__init__()
        self.world = RunWorld()
        self.world.look()
        self.memo = Memo()
        self.pending: dict[StepKey, tuple[Step, Snapshot]] = {}

    # --- the operator ----

    @rule()
    def think(self) -> None:
        snapshot = self.world.snapshot()
        view = LifecycleView.of(snapshot)
        wrong = misplaced({job.id: Placed.of(job) for job in snapshot.jobs.values()}, snapshot.rentals, view.nodes)
        for job in snapshot.jobs.values():
            if goes_on(job) and job.run_label not in wrong:
                assert run_step(job.id, view) is None
        assert next_steps(snapshot, self.memo) == next_steps(snapshot)
        for key, step in next_steps(snapshot)[0].items():
            if key.kind in (StepKind.JOB, StepKind.NODE):
                self.pending.setdefault(key, (step, snapshot))

    @rule(again=st.booleans())
    def carry_out(self, again: bool) -> None:
        """With ``again`` the answer is lost, and the steps are done a second time."""
        for step, decided in list(self.pending.values()) * (2 if again else 1):
            try:
                self.world.execute(step, decided)
            except Stale:
                continue
        self.pending.clear()

    @rule(turns=st.integers(1, 12), controlled=st.booleans(), seconds=st.integers(0, 3))
    def work_undisturbed(self, turns: int, controlled: bool, seconds: int) -> None:
        for _ in range(turns):
            self.think()
            self.carry_out(False)
            self.world.now = after(self.world.now, seconds)
            if controlled:
                self.world.control()
                self.world.look()

    @precondition(lambda self: self.world.job is not None and self.world.job.allocation is None)
    @rule(machines=st.lists(st.sampled_from(MACHINES), min_size=1, max_size=3, unique=True))
    def a_run_gets_going(self, machines: list[str]) -> None:
        self.world.allocate(machines)
        self.work_undisturbed(12, True, 1)

    @rule()
    def crash(self) -> None:
        self.pending.clear()

    @rule(number=st.integers(1, 3))
    def a_deposed_leader_creates_a_run(self, number: int) -> None:
        """Its request was on its way while another leader went on."""
        if self.world.job is not None:
            self.world.create_run(self.world.job.last_run + number - 1, 1)

    # --- the planner and people ----

    @rule(machines=st.lists(st.sampled_from(MACHINES), max_size=3, unique=True))
    def allocate(self, machines: list[str]) -> None:
        self.world.allocate(machines)

    # --- Kubernetes and the cloud ----

    @rule()
    def controllers_work(self) -> None:
        self.world.control()

    @rule(seconds=st.sampled_from([1, 4, 11, 40]))
    def time_passes(self, seconds: int) -> None:
        self.world.now = after(self.world.now, seconds)

    @rule()
    def ask_the_cloud(self) -> None:
        self.world.look()

    @rule()
    def dead_machines_are_cleared(self) -> None:
        self.world.clear()

    @precondition(lambda self: self._running())
    @rule(data=st.data(), how=st.sampled_from(["done", "broken", "stopped", "evict"]))
    def something_happens_to_a_pod(self, data: st.DataObject, how: str) -> None:
        number, pod = data.draw(st.sampled_from(self._running()))
        if how == "evict":
            self.world.evict(number, pod)
        else:
            self.world.end_pod(number, pod, {"done": 0, "broken": 1, "stopped": 143}[how])

    @precondition(lambda self: self._running())
    @rule(code=st.sampled_from([0, 1, 143]))
    def a_pod_is_evicted_and_ends(self, code: int) -> None:
        number, pod = self._running()[0]
        self.world.evict(number, pod)
        evicted = next(item for item in self.world.live(number) if item.uid == pod.uid)
        self.world.end_pod(number, evicted, code)

    @precondition(lambda self: self._running())
    @rule()
    def all_ranks_end_their_work(self) -> None:
        for number, pod in self._running():
            self.world.end_pod(number, pod, 0)

    @precondition(lambda self: self._running())
    @rule()
    def a_machine_fails_its_pods_and_dies(self) -> None:
        """The processes go first, so that no pod is left hanging that would tell."""
        number, pod = self._running()[0]
        self.world.kill(str(pod.node).removeprefix("n-"))
        for other in self.world.live(number):
            self.world.end_pod(number, other, 1)

    @rule(name=st.sampled_from(MACHINES), peers_fail=st.booleans())
    def a_machine_dies(self, name: str, peers_fail: bool) -> None:
        if name in self.world.dead:
            self.world.replace_machine(name)
            return
        self.world.kill(name)
        for number, pod in self._running() if peers_fail else []:
            if self.world.truth.get(number) is not None and self.world.truth[number].lost:
                self.world.end_pod(number, pod, 1)

    def _running(self) -> list[tuple[int, Pod]]:
        """Pods with a process that can end: on machines that live."""
        dead = {f"n-{name}" for name in self.world.dead}
        return [
            (number, pod)
            for number in self.world.runs
            for pod in self.world.live(number)
            if pod.phase is PodPhase.RUNNING and pod.node not in dead
        ]

    # --- what must hold ----

    @invariant()
    def only_one_run_has_live_pods(self) -> None:
        assert sum(bool(self.world.live(number)) for number in self.world.runs) <= 1

    def teardown(self) -> None:
        """From here on nothing disturbs: the job must finish, and leave nothing behind."""
        world = self.world
        self.pending.clear()
        for _ in list(world.dead):
            world.now = after(world.now, 60)
            world.look()
            world.clear()
        for _ in range(_ROUNDS):
            for number, pod in self._running():
                world.end_pod(number, pod, 0)
            world.control()
            world.now = after(world.now, 3)
            world.look()
            world.clear()
            world.give_up_lost()
            for name in list(world.dead):
                world.replace_machine(name)
            assert world.job is not None
            if world.job.allocation is None:
                world.allocate([name for name in MACHINES if name not in world.dead])
            self.think()
            quiet = not self.pending
            self.carry_out(False)
            self.only_one_run_has_live_pods()
            if quiet and world.job.finish is not None and not world.job.replaced and not world.labelled():
                break
        self._nothing_is_left()

    def _nothing_is_left(self) -> None:
        world = self.world
        assert world.job is not None
        assert world.job.finish is not None, "never finished"
        assert world.job.finish.kind is FinishKind.COMPLETE or world.job.failures > world.job.backoff_limit
        assert not world.labelled(), "labels leaked"
        assert len(world.runs) <= 1, "only the last run's Job stays, for its logs"
        assert len(world.job.records) == world.job.last_run, "a run was never recorded"
        world.labels["m1"][world.job.run_label] = "r1"
        world.job = None
        self.think()
        self.carry_out(False)
        assert not world.labelled(), "labels of a job that is gone leaked"


TestRunsOnAnyCourse = RunsOnAnyCourse.TestCase
TestRunsOnAnyCourse.settings = settings(max_examples=lanes.examples(100), stateful_step_count=50)
