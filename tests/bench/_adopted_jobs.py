"""The demo's jobs as teams have them, labelled for adoption: as plain Jobs and as TrainJobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from charterer.workloads.adopted.job_set import TRAIN_JOBS
from demo.pace import Json
from demo.replay import TRAINING_JOBS
from demo.scenario import NAMESPACE, ReplayJob, Scenario
from tests.bench._plain_jobs import gpus_per_pod
from tests.contract.adopted_objects import training_runtime
from tests.testbed import job_controllers
from tests.testbed.controlplane import ControlPlane
from tests.testbed.job_controller_process import JobControllerProcesses
from tests.testbed.karpenter_process import GPU

_RUNTIME = "torch"
_NODE = 4
"""GPUs of a node of the T4s that the owners asked for."""


def _metadata(job: ReplayJob, **annotations: str) -> Json:
    return {
        "name": job.name,
        "namespace": NAMESPACE,
        "labels": {"charterer.dev/adopt": "true", "charterer.dev/profile": job.application.name},
        "annotations": {f"charterer.dev/{key}": value for key, value in annotations.items()},
    }


def _pod(**container: object) -> Json:
    """A pod template; a Job's back-off after a lost pod, at least 10 s, is spared: no pace shortens it."""
    return {
        "metadata": {"annotations": {"testbed.charterer.dev/stopped-at": "2000-01-01T00:00:00Z"}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "node", "image": "example.invalid/train:demo", **container}],
        },
    }


def plain_job(of: Scenario, job: ReplayJob) -> Json:
    """An Indexed Job of pods of one GPU, as many as were asked for; its annotations ask for what a TrainingJob does."""
    pods = min(job.asked, of.widest)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(job, gpus=f"1..{of.widest}", resize="Restart", spot="Allowed"),
        "spec": {
            "completionMode": "Indexed",
            "completions": pods,
            "parallelism": pods,
            "backoffLimit": 6,
            "template": _pod(resources={"limits": {GPU: "1"}}),
        },
    }


def train_job(of: Scenario, job: ReplayJob) -> Json:
    """A TrainJob of the GPUs that were asked for, on as few nodes as these allow."""
    gpus = min(job.asked, of.widest)
    each = gpus_per_pod(gpus, _NODE)
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": _metadata(job),
        "spec": {
            "runtimeRef": {"kind": "TrainingRuntime", "name": _RUNTIME},
            "trainer": {"numNodes": gpus // each, "resourcesPerNode": {"limits": {GPU: str(each)}}},
        },
    }


def _runtime() -> Json:
    """The TrainingRuntime of all TrainJobs. A pod that ends badly ends its TrainJob."""
    body: Json = training_runtime(_RUNTIME)
    body["metadata"]["namespace"] = NAMESPACE
    (job,) = body["spec"]["template"]["spec"]["replicatedJobs"]
    job["template"]["spec"]["template"] = _pod()
    return body


PLAIN = replace(TRAINING_JOBS, path=f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", manifest=plain_job, reports=False)
"""Their records are the TrainingJobs that Charterer makes, under the same names."""
TRAIN = replace(TRAINING_JOBS, path=TRAIN_JOBS.all(NAMESPACE), manifest=train_job, reports=False)
RUNTIME = _runtime()


@contextmanager
def controllers(plane: ControlPlane, directory: Path) -> Iterator[None]:
    """The real controllers of JobSets and TrainJobs act. SystemExit where they have not been built."""
    found = job_controllers.find()
    if found is None:
        raise SystemExit(
            "skipped: the controllers of JobSets and TrainJobs have not been built: run `make job-controllers`"
        )
    directory.mkdir()
    with JobControllerProcesses.start(plane, found, directory):
        yield
