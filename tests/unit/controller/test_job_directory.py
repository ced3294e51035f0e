"""Which pods the progress endpoint takes for a job's."""

from __future__ import annotations

from dataclasses import replace

from charterer.api.decode import JobPod
from charterer.cluster.store import ObjectKey
from charterer.controller.job_directory import SnapshotJobDirectory
from charterer.controller.snapshot.observe import observe
from charterer.domain.ids import JobId
from tests import factory
from tests.unit.cli.worlds import seen_of
from tests.worlds import NAMESPACE, one_job_runs


def test_only_pods_that_a_run_of_the_job_controls_in_its_namespace_may_report() -> None:
    world = one_job_runs()
    seen = seen_of(world)
    (run,) = world.jobs[JobId("train")].runs
    forged = factory.pod(0, run.number, "train", uid="forged")
    claims = {
        ObjectKey("evil", "copied"): JobPod("evil", run.name, run.uid, forged),
        ObjectKey(NAMESPACE, "beside"): JobPod(NAMESPACE, run.name, "another-job", forged),
    }
    snapshot = observe(replace(seen, pods={**seen.pods, **claims}), world.now)
    found = SnapshotJobDirectory(lambda: snapshot).find(JobId("train"))
    assert found is not None
    assert found.pod_uids == {pod.uid for pod in run.pods}
