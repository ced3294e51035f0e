"""Jobs, their runs and pods in one small world with machines that are billed: what is in deletion, and what keeps it.

As Kubernetes does: an object with a finalizer stays, the Job controller leaves the pods of a Job in deletion alone, the
garbage collector comes late, and a kubelet that is silent ends nothing. Some runs are Jobs of a team's own (adopted).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from charterer.controller.snapshot.runs import run_of
from charterer.domain.ids import JobId, NodeName
from charterer.domain.job import Job, Run, Widths
from charterer.domain.pod import Pod, PodPhase
from charterer.domain.snapshot import AdoptionCandidate, Node, Orphan, Snapshot
from charterer.domain.target import Target, TargetRef
from charterer.domain.time import Instant, after
from tests import factory as make
from tests.property.lifecycle.planned_world import PlannedWorld

GRACE = 5
GARBAGE_SECONDS = 15
"""Seconds after which the garbage collector comes to what an object in deletion owns."""


@dataclass
class Kubernetes(PlannedWorld):
    """``kept``: uids of what a finalizer of somebody's keeps. ``orphaned``: of runs that have no owner any more."""

    runs: dict[str, Run] = field(default_factory=dict)
    """By uid; of an adopted object the uid is the object's, and ``targets`` has the rest."""
    owners: dict[str, JobId] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    pods: dict[str, tuple[str, Pod]] = field(default_factory=dict)
    """By uid, with the uid of the run that controls each, which may be gone."""
    labels: dict[NodeName, dict[str, str]] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    orphaned: set[str] = field(default_factory=set)
    collected_at: dict[str, Instant] = field(default_factory=dict)
    silent: dict[NodeName, Instant] = field(default_factory=dict)
    made: int = 0

    # --- what people do -----------------------------------------------------------------------------------------------

    def create(self, name: str, *, adopted: bool = False) -> Job:
        """A TrainingJob of four GPUs; an adopted one with the Job that it stands for."""
        made = make.job(name, widths=Widths(4, 4, 4), created=self.cloud.now, grace_seconds=GRACE)
        if adopted:
            ref = TargetRef("batch/v1", "Job", name, f"{name}-object")
            made = replace(made, target=ref)
            self.targets[ref.uid] = Target(ref, "research", "1", self.cloud.now, suspended=True, held=True)
            self.targets[ref.uid] = replace(self.targets[ref.uid], placeable=True, controllers=frozenset([name]))
            self.owners[ref.uid] = made.id
        self.jobs[made.id] = made
        return made

    def keep(self, *uids: str) -> None:
        """Give objects a finalizer of somebody's own."""
        self.kept |= set(uids)

    def delete_job(self, job: JobId, *, foreground: bool = False, orphans: bool = False) -> None:
        """As ``kubectl delete trainingjob``: the object goes once nothing keeps it."""
        self.jobs[job] = replace(self.jobs[job], deleting=True)
        owned = [uid for uid, owner in self.owners.items() if owner == job and uid in self.runs]
        if orphans:
            self.orphaned |= set(owned)
        elif foreground:
            self.keep(f"foreground-{job}")
        for uid in owned if not orphans else ():
            self.collected_at[uid] = after(self.cloud.now, GARBAGE_SECONDS)

    def delete_run(self, uid: str) -> None:
        """As ``kubectl delete job`` in the background."""
        if uid in self.targets:
            self.targets[uid] = replace(self.targets[uid], deleting=True)
        else:
            self.runs[uid] = replace(self.runs[uid], deleting=True)
        self.collect()

    def tell_to_end(self, uid: str) -> None:
        """As a deletion of the pod, with its grace period."""
        run, pod = self.pods[uid]
        if not pod.deleting:
            by = after(self.cloud.now, GRACE)
            self.pods[uid] = run, replace(pod, deleting=True, told_to_end=self.cloud.now, must_end_by=by)

    def complete_pods(self) -> None:
        for uid, (_, pod) in self.pods.items():
            if pod.live and not pod.deleting:
                self.pod_ends(uid, PodPhase.SUCCEEDED, 0)

    def pod_ends(self, uid: str, phase: PodPhase, code: int | None) -> None:
        run, pod = self.pods[uid]
        over = replace(pod, phase=phase, exit_code=code, finished=self.cloud.now, ready=False)
        self.pods[uid] = run, over

    def silence(self) -> None:
        """The kubelets of all nodes say nothing any more."""
        for name in self.nodes():
            self.silent.setdefault(name, self.cloud.now)

    # --- what is seen -------------------------------------------------------------------------------------------------

    def living(self) -> list[Pod]:
        """Pods that have machines."""
        there = self.nodes()
        return [pod for _, pod in self.pods.values() if pod.live and pod.node is not None and pod.node in there]

    def nodes(self) -> Mapping[NodeName, Node]:
        found = {}
        for name, node in super().nodes().items():
            since = self.silent.get(name)
            there = [(run, pod) for run, pod in self.pods.values() if pod.node == name and pod.live]
            found[name] = replace(
                node,
                ready=node.ready and since is None,
                not_ready_since=since,
                run_labels=dict(self.labels.get(name, {})),
                foreign_gpus=sum([pod.gpus for run, pod in there if self._alien(run)]),
            )
        return found

    def _alien(self, run: str) -> bool:
        """Whether no run of a job that is there controls what this one controls."""
        there = run in self.runs or run in self.targets
        return not there or run in self.orphaned or self.owners[run] not in self.jobs

    def snapshot(self) -> Snapshot:
        seen = super().snapshot()
        orphans, candidates = [], []
        jobs = dict(seen.jobs)
        for uid, run in self._all_runs():
            job = self.owners[uid]
            if job in jobs and uid not in self.orphaned:
                jobs[job] = replace(jobs[job], runs=(*jobs[job].runs, run))
            elif uid not in self.targets:
                orphans.append(Orphan(job, "research", self.budget.id, run if run.deleting else replace(run, pods=())))
        for uid, target in self.targets.items():
            owner = self.owners[uid]
            if owner in jobs:
                jobs[owner] = replace(jobs[owner], adopted=target)
            else:
                pods = tuple([pod for run, pod in self.pods.values() if run == uid])
                candidates.append(AdoptionCandidate(target, self.budget.id, pods if target.deleting else ()))
        return replace(seen, jobs=jobs, orphans=tuple(orphans), candidates=tuple(candidates))

    def _all_runs(self) -> Iterator[tuple[str, Run]]:
        for uid, run in self.runs.items():
            yield uid, replace(run, pods=self._pods_of(uid))
        for uid, target in self.targets.items():
            job = self.jobs.get(self.owners[uid])
            if job is not None and (carried := run_of(job, target)) is not None:
                own = tuple([pod for pod in self._pods_of(uid) if pod.run == carried.number])
                yield uid, replace(carried, pods=own)

    def _pods_of(self, run: str) -> tuple[Pod, ...]:
        return tuple([pod for owner, pod in self.pods.values() if owner == run])

    # --- Kubernetes ---------------------------------------------------------------------------------------------------

    def kubernetes_works(self) -> None:
        """One pass of the Job controller, the scheduler, the kubelets and the garbage collector."""
        for uid in [*self.runs, *self.targets]:
            self._control(uid)
        for uid, (run, pod) in list(self.pods.items()):
            if pod.live and pod.node is None:
                self._schedule(uid, run, pod)
            elif pod.live and pod.deleting and pod.node is not None and pod.node not in self.silent:
                self.pod_ends(uid, PodPhase.FAILED, 143)
        self.collect()

    def _control(self, uid: str) -> None:
        target = self.targets.get(uid)
        run = self.runs.get(uid) or (None if target is None else self._as_run(uid, target))
        if run is None or run.deleting or run.ended is not None:
            return
        own = self._pods_of(uid)
        if run.suspended:
            for pod in own:
                self.tell_to_end(pod.uid) if pod.live else self.pods.pop(pod.uid)
            if target is not None:
                self.targets[uid] = replace(target, placeable=not any(pod.live for pod in own))
        elif any(pod.phase is PodPhase.FAILED for pod in own):
            self._conclude(uid, "failed")
        elif own and all(pod.phase is PodPhase.SUCCEEDED for pod in own):
            self._conclude(uid, "complete")
        elif not own:
            self.made += 1
            name = f"pod-{self.made}"
            pod = make.pod(0, run.number, name=name, uid=name, node=None, phase=PodPhase.PENDING, ready=False)
            self.pods[name] = uid, pod

    def _as_run(self, uid: str, target: Target) -> Run | None:
        job = self.jobs.get(self.owners[uid])
        return None if job is None else run_of(job, target)

    def _conclude(self, uid: str, how: str) -> None:
        since: dict[str, Any] = {how: self.cloud.now}
        if uid in self.targets:
            self.targets[uid] = replace(self.targets[uid], **since)
        else:
            self.runs[uid] = replace(self.runs[uid], **since)

    def _schedule(self, uid: str, run: str, pod: Pod) -> None:
        if pod.deleting:
            del self.pods[uid]
            return
        taken = {other.node for _, other in self.pods.values() if other.live}
        label = make.job(self.owners[run].removesuffix("-12345678-uid")).run_label
        for name, node in self.nodes().items():
            free = node.ready and not node.unschedulable and name not in taken
            if free and self.labels.get(name, {}).get(label) == f"r{pod.run}":
                self.pods[uid] = run, replace(pod, node=name, phase=PodPhase.RUNNING, ready=True)
                return

    def collect(self) -> None:
        """What is in deletion goes if nothing keeps it; what it owned follows, and so do pods of what is gone."""
        now = self.cloud.now
        for job in [job for job in self.jobs.values() if job.deleting]:
            owned = [uid for uid, owner in self.owners.items() if owner == job.id and uid in self.runs]
            if not [uid for uid in owned if uid not in self.orphaned]:
                self.kept.discard(f"foreground-{job.id}")
            if job.id not in self.kept and f"foreground-{job.id}" not in self.kept:
                del self.jobs[job.id]
        for uid, when in list(self.collected_at.items()):
            owner_stays = self.owners[uid] in self.jobs and f"foreground-{self.owners[uid]}" not in self.kept
            if uid in self.runs and when <= now and not owner_stays:
                self.runs[uid] = replace(self.runs[uid], deleting=True)
        for uid in [uid for uid, run in self.runs.items() if run.deleting and uid not in self.kept]:
            self._gone(uid)
        for uid in [uid for uid, target in self.targets.items() if target.deleting and uid not in self.kept]:
            self._gone(uid)
        for uid, (run, pod) in list(self.pods.items()):
            if run not in self.runs and run not in self.targets and now >= self.collected_at.get(run, now):
                self.tell_to_end(uid)
            if pod.deleting and not pod.live and uid not in self.kept:
                del self.pods[uid]

    def _gone(self, uid: str) -> None:
        self.runs.pop(uid, None)
        if self.targets.pop(uid, None) is not None and (job := self.owners[uid]) in self.jobs:
            self.delete_job(job)
        self.collected_at[uid] = after(self.cloud.now, GARBAGE_SECONDS)
