"""What is made of a command line: objects that the schema takes, and YAML that says the same to every reader."""

from __future__ import annotations

import base64
import io
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from charterer.api import decode
from charterer.domain.job import ResizePolicy, SpotPolicy, Widths
from charterer.domain.job_quote import JobQuote
from charterer.domain.money import Money
from charterer.domain.time import after, parse_instant
from charterer.tools.submission.manifest import GitSource, NewJob, Volume, as_yaml, manifests, owned_by
from tests.unit.api import values
from tests.unit.cli.run.repository import git, repository, write

ASKED = NewJob(
    name="sft",
    namespace="research",
    image="acme/sft:1",
    command=("torchrun", "train.py"),
    gpus=Widths(4, 4, 32),
    code=None,
    git_image="acme/git:1",
    environment={},
)

WORDS = ["1e-3", "1_000", "0o7", "0x1F", "010", ".5", "-1", "1:30", "y", "No", "on", "null", "~", "", "=", "a: b", "#"]
WORDS += ["ä\u2028", "two\nlines\n", " x"]
"""Texts that readers of YAML take for something else, each in its own way."""


def pod_of(asked: NewJob) -> dict[str, Any]:
    pod: dict[str, Any] = manifests(asked)[0]["spec"]["template"]["spec"]
    return pod


def test_a_quote_goes_with_the_job_as_the_schema_takes_it() -> None:
    at = parse_instant("2026-06-16T00:00:00Z")
    quote = JobQuote(at, Money.parse("10.25"), Money.parse("1040"), at, after(at, 3600.0))
    job, _ = manifests(replace(ASKED, quote=quote))
    assert job["spec"]["quote"]["costHigh"] == "1040.00"
    raw = values.raw_job()
    read = decode.training_job({**raw, "spec": {**job["spec"], "template": raw["spec"]["template"]}})
    assert read.job.quote == quote


def test_the_smallest_says_little_and_leaves_the_rest_to_the_schema() -> None:
    job, code_map = manifests(ASKED)
    assert code_map is None
    assert job == {
        "apiVersion": "charterer.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "sft", "namespace": "research"},
        "spec": {
            "gpus": {"min": 4, "max": 32},
            "template": {
                "spec": {
                    "containers": [
                        {
                            "name": "trainer",
                            "image": "acme/sft:1",
                            "command": ["torchrun", "train.py"],
                            "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                        }
                    ],
                    "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
                }
            },
        },
    }


def test_everything_that_is_asked_for_is_in_the_job() -> None:
    asked = replace(
        ASKED,
        profile="sft",
        gpu_types=("NVIDIA-A100-SXM4-40GB",),
        spot=True,
        resize=ResizePolicy.RESTART,
        max_cost=Money.parse("20"),
        complete_by=parse_instant("2026-12-01T19:00:00+01:00"),
        environment={"LR": "1e-3"},
        volumes=(Volume("checkpoints", "/checkpoints"),),
    )
    raw = {**manifests(asked)[0], "metadata": values.raw_job()["metadata"]}
    job = decode.training_job(raw).job
    assert (job.invalid, job.widths, job.class_id.name) == ("", Widths(4, 4, 32), "sft")
    assert (job.gpu_types, job.spot, job.resize) == (asked.gpu_types, SpotPolicy.ALLOWED, ResizePolicy.RESTART)
    assert (job.max_cost, job.target_completion) == (asked.max_cost, asked.complete_by)
    assert job.grace_seconds == 120, "a job that may be moved has time to save"
    (trainer,) = pod_of(asked)["containers"]
    assert trainer["env"] == [{"name": "LR", "value": "1e-3"}]
    assert {"name": "volume-0", "mountPath": "/checkpoints"} in trainer["volumeMounts"]
    assert {"name": "volume-0", "persistentVolumeClaim": {"claimName": "checkpoints"}} in pod_of(asked)["volumes"]


def test_the_code_is_in_an_immutable_object_whose_name_tells_its_content() -> None:
    job, code_map = manifests(replace(ASKED, code=b"packed"))
    assert code_map is not None
    assert (code_map["immutable"], code_map["binaryData"]) == (
        True,
        {"code.tar.gz": base64.b64encode(b"packed").decode()},
    )
    other = manifests(replace(ASKED, code=b"other"))[1]
    assert other is not None
    assert len({code_map["metadata"]["name"], other["metadata"]["name"]}) == 2
    pod = job["spec"]["template"]["spec"]
    (unpacker,), (trainer,) = pod["initContainers"], pod["containers"]
    assert unpacker["image"] == trainer["image"]
    assert trainer["workingDir"] == "/workspace" == unpacker["command"][-1]
    assert {"name": "code", "configMap": {"name": code_map["metadata"]["name"]}} in pod["volumes"]
    owner = owned_by(code_map, {"metadata": {"name": "sft", "uid": "uid-1"}})["metadata"]["ownerReferences"]
    assert owner == [{"apiVersion": "charterer.dev/v1alpha1", "kind": "TrainingJob", "name": "sft", "uid": "uid-1"}]


def test_a_commit_is_fetched_by_an_init_container_with_git() -> None:
    source = GitSource("https://github.com/acme/sft", "1a2b" * 10, "sft/")
    job, code_map = manifests(replace(ASKED, code=source))
    assert code_map is None
    pod = job["spec"]["template"]["spec"]
    (fetcher,), (trainer,) = pod["initContainers"], pod["containers"]
    assert fetcher["image"] == "acme/git:1"
    assert fetcher["command"][-2:] == [source.url, source.commit]
    assert trainer["workingDir"] == "/workspace/sft"


@pytest.mark.parametrize("late", [False, True])
def test_the_fetcher_brings_that_commit_and_no_later_one(tmp_path: Path, late: bool) -> None:
    there = repository(tmp_path / "there", {"sft/train.py": "print(1)"})
    commit = git(there, "rev-parse", "HEAD")
    if late:
        write(there / "sft/train.py", "print(2)")
        git(there, "commit", "--quiet", "--all", "--message", "second")
    (fetcher,) = pod_of(replace(ASKED, code=GitSource(str(there), commit)))["initContainers"]
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    subprocess.run(fetcher["command"], cwd=workspace, check=True)
    assert (workspace / "sft/train.py").read_text() == "print(1)"
    assert git(workspace, "rev-parse", "HEAD") == commit


def test_a_commit_that_is_not_there_fails_the_fetcher(tmp_path: Path) -> None:
    there = repository(tmp_path / "there", {"train.py": ""})
    (fetcher,) = pod_of(replace(ASKED, code=GitSource(str(there), "1a2b" * 10)))["initContainers"]
    assert subprocess.run(fetcher["command"], cwd=tmp_path, check=False, capture_output=True).returncode != 0


@pytest.mark.parametrize("word", WORDS)
def test_no_reader_of_the_yaml_takes_a_word_for_anything_but_a_text(word: str) -> None:
    text = as_yaml(*manifests(replace(ASKED, command=("run", word), environment={"WORD": word})))
    read = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"][0]
    assert (read["command"], read["env"]) == (["run", word], [{"name": "WORD", "value": word}])
    (line,) = [line for line in text.splitlines() if line.lstrip().startswith("value: ")]
    assert line.partition("value: ")[2][0] in '"|', "a text without quotes is a number or a truth to some reader"


def test_the_yaml_has_the_code_first_and_says_how_to_apply_it() -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz"):
        pass
    asked = replace(ASKED, namespace=None, code=packed.getvalue())
    text = as_yaml(*manifests(asked))
    assert text.startswith("# Apply it with --server-side")
    code_map, job = yaml.safe_load_all(text)
    assert (code_map, job) == (manifests(asked)[1], manifests(asked)[0])
    assert "namespace" not in {**code_map["metadata"], **job["metadata"]}, "kubectl's own namespace counts"
