"""Runs that are resized in place, in any course of events: there is one group at a time, and one that was asked for.

The Job controller, the trainer and the plan are played here. A trainer forms the group that it is told of when all its
pods are there, and otherwise stands still; an operator may end between any two steps, since it keeps nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.job import Allocation, Job, ResizePolicy, first_group
from charterer.domain.job_records import resized, with_allocation
from charterer.domain.pod import Pod, PodPhase
from charterer.domain.reports import Progress
from charterer.domain.steps import RecordGroup, ResizeRun
from charterer.lifecycle.run import group_of, group_step, live_pods
from tests import factory

_MOST = 5


@dataclass
class _World:
    """``training``: uids of the pods of the trainer's group, by index, and its ``generation``; nobody before the first.

    ``asked``: the pods of each generation that was ever asked for.
    """

    job: Job
    seconds: float = 1.0
    made: int = 0
    training: dict[int, str] = field(default_factory=dict)
    generation: int = 0
    asked: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, pods: int) -> _World:
        mine = factory.job(
            resize=ResizePolicy.IN_PLACE,
            allocation=_allocation(pods),
            last_run=1,
            group=first_group(1, pods, factory.at(0), None),
            runs=(factory.run(1, completions=pods),),
        )
        world = cls(mine)
        world.asked[1] = tuple(range(pods))
        world.controller()
        return world

    # --- the cluster ---

    def controller(self) -> None:
        """The Job controller makes the pods that are missing, and ends those beyond the completions."""
        (run,) = self.job.runs
        kept = [pod for pod in run.pods if pod.index < run.completions]
        missing = set(range(run.completions)) - {pod.index for pod in kept}
        for index in sorted(missing):
            self.made += 1
            kept.append(factory.pod(index, uid=f"{self.made:08}", phase=PodPhase.PENDING))
        self._pods(kept)

    def kubelet(self) -> None:
        """All pods run."""
        self._pods([replace(pod, phase=PodPhase.RUNNING) for pod in self.job.runs[0].pods])

    def kill(self, index: int) -> None:
        """A pod is lost, if it is there."""
        self._pods([pod for pod in self.job.runs[0].pods if pod.index != index])

    def _pods(self, pods: list[Pod]) -> None:
        run = replace(self.job.runs[0], pods=tuple(pods))
        self.job = replace(self.job, runs=(run,))

    # --- the trainer ---

    def train(self) -> None:
        """Those of the group that live form the one they are told of, if all its pods run and hear of it."""
        running = {pod.index: pod.uid for pod in self.job.runs[0].pods if pod.phase is PodPhase.RUNNING}
        group = group_of(self.job, self.job.runs[0])
        members = {index: running[index] for index in group.indexes if index in running}
        survivors = {index for index, uid in self.training.items() if running.get(index) == uid}
        if len(members) < len(group.indexes) or group.generation <= self.generation:
            return
        if survivors and not survivors & set(members):
            return
        if group.uids and any(
            not uid.startswith(known) for uid, known in zip(members.values(), group.uids, strict=True)
        ):
            return
        self.training, self.generation = members, group.generation

    def report(self) -> None:
        """The leader reports, if it lives."""
        pods = live_pods(self.job.runs[0])
        if self.training and pods.get(min(self.training)) == self.training[min(self.training)]:
            said = Progress(1, 0.5, None, None, factory.at(self.seconds), self.generation)
            self.job = replace(self.job, progress=said)

    # --- Charterer ---

    def plan(self, pods: int) -> None:
        """Another width, as the plan gives it to a run all of whose pods train; or the former one again."""
        former, intended = self.job.resized_from, self.job.allocation
        assert intended is not None
        if self.job.regroups:
            if former is None:
                return
            pods = len(former.placements)
        if pods != len(intended.placements):
            changed = with_allocation(self.job, replace(_allocation(pods), since=factory.at(self.seconds)), {})
            group = self.job.current_group
            unknown = group is None or not group.formed
            self.job = resized(changed, {}, factory.at(self.seconds)) if unknown else changed

    def restart_if_late(self) -> None:
        """The plan restarts a run whose group is not formed in time: a new Job, all of whose pods are new."""
        group, intended = self.job.current_group, self.job.allocation
        assert intended is not None
        if group is None or not group.pending or self.seconds < (group.by - factory.at(0)) / 1e6:
            return
        pods = len(intended.placements)
        again = first_group(1, pods, factory.at(self.seconds), group)
        self.job = replace(
            self.job, group=again, resized_from=None, progress=None, runs=(factory.run(1, completions=pods),)
        )
        self.training, self.generation, self.asked = {}, 0, {1: again.indexes}

    def step(self) -> bool:
        """The next step, carried out; whether there was one."""
        assert self.job.allocation is not None
        (run,) = self.job.runs
        step = group_step(self.job, self.job.allocation, run, "", factory.at(self.seconds))
        if isinstance(step, ResizeRun):
            alive = {pod.uid for pod in run.pods}
            trainers = [index for index, uid in self.training.items() if uid in alive]
            stay = {index < step.completions for index in trainers}
            assert stay != {True, False} or not group_of(self.job, run).formed
            self.job = replace(self.job, runs=(replace(run, completions=step.completions, retries=step.retries),))
            return True
        if isinstance(step, RecordGroup):
            new = step.group
            assert new.indexes
            assert self.asked.setdefault(new.generation, new.indexes) == new.indexes
            assert new.generation == max(self.asked)
            self.job = replace(self.job, group=new)
            if step.counts:
                self.job = resized(self.job, {}, factory.at(self.seconds))
            return True
        return False


def _allocation(pods: int) -> Allocation:
    return factory.allocation(*(f"a100-{number}" for number in range(pods)))


EVENTS = st.lists(
    st.one_of(
        st.sampled_from(["step", "controller", "kubelet", "train", "report"]),
        st.tuples(st.just("plan"), st.integers(1, _MOST)),
        st.tuples(st.just("kill"), st.integers(0, _MOST - 1)),
    ),
    max_size=60,
)


@given(st.integers(1, _MOST), EVENTS, st.booleans())
def test_in_any_course_the_group_is_one_that_was_asked_for_and_comes_to_the_width_of_the_allocation(
    pods: int, events: list[str | tuple[str, int]], names: bool
) -> None:
    world = _World.of(pods)
    if names:
        world.kubelet()
        world.train()
        world.report()
    for event in events:
        _happen(world, event, names)
    for _ in range(60):
        world.restart_if_late()
        for event in ("controller", "kubelet", "step", "train", "report"):
            _happen(world, event, names)
    intended = world.job.allocation
    assert intended is not None
    assert not world.job.regroups
    assert (
        world.job.runs[0].completions == len(intended.placements) == len(group_of(world.job, world.job.runs[0]).indexes)
    )
    assert world.job.runs[0].retries == 0
    if names:
        assert set(world.training) == set(range(len(intended.placements)))


def _happen(world: _World, event: str | tuple[str, int], names: bool) -> None:
    world.seconds += 1.0
    match event:
        case ("plan", int(pods)):
            world.plan(pods)
        case ("kill", int(index)):
            world.kill(index)
        case "controller":
            world.controller()
        case "kubelet":
            world.kubelet()
        case "step":
            world.step()
        case "train" if names:
            world.train()
        case "report" if names:
            world.report()
    if world.training:
        assert world.asked[world.generation] == tuple(sorted(world.training))
