"""What runs are called."""

from __future__ import annotations

from charterer.domain.pod import job_of_run, run_name, run_number
from charterer.domain.target import TargetRef
from tests import factory


def test_a_run_is_told_of_by_the_name_of_its_job_or_as_one_of_the_object_that_is_adopted() -> None:
    adopted = factory.job(target=TargetRef("jobset.x-k8s.io/v1alpha2", "JobSet", "team-sft", "u"))
    assert factory.job().run_title(2) == "sft-r2"
    assert adopted.run_title(2) == "run 2 of JobSet team-sft"


def test_the_job_of_a_run_is_found_by_the_runs_name() -> None:
    assert job_of_run(run_name("sft-r1", 3), 3) == "sft-r1"
    assert run_number(run_name("sft-r1", 3), "sft-r1") == 3
