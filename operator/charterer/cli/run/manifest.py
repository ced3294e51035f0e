"""The objects of a submission: a TrainingJob, and a ConfigMap with its code; and both as YAML."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from charterer.api.models.base import Json
from charterer.api.names import API_VERSION
from charterer.cli.run.git import GitSource
from charterer.domain.job import ResizePolicy, SpotPolicy
from charterer.domain.jobs.widths import Widths
from charterer.domain.money import Money
from charterer.domain.time import Instant, format_second

WORKSPACE: Final = "/workspace"
_PACKED: Final = "/var/run/charterer-code"
_TARBALL: Final = "code.tar.gz"
_GRACE_SECONDS: Final = 120
"""Time to save a checkpoint for a job that may be moved."""
UNPACK: Final = (
    *("-I", "-W", "ignore", "-c"),
    "import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])",
)
"""What Python gets before the tarball and the directory: the library may warn of what it will do differently."""
_FETCH: Final = """\
set -e
git init --quiet .
git remote add origin "$1"
git fetch --quiet --depth 1 origin "$2" || git fetch --quiet origin
git checkout --quiet --detach "$2"
git submodule update --quiet --init --recursive --depth 1
"""
_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9_./:-]*")
_WORDS: Final = re.compile(r"y|yes|n|no|true|false|on|off|null|nan|inf", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolumeClaim and where the container sees it."""

    claim: str
    path: str


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """What a command line asks for. ``namespace``: None for that of whoever applies the manifest.

    ``code``: a tarball, or where to fetch it from, or None where the image has it. ``git_image``: has git.
    """

    name: str
    namespace: str | None
    image: str
    command: tuple[str, ...]
    gpus: Widths
    code: bytes | GitSource | None
    git_image: str
    environment: Mapping[str, str]
    volumes: tuple[Volume, ...] = ()
    profile: str | None = None
    gpu_types: tuple[str, ...] = ()
    spot: bool = False
    resize: ResizePolicy = ResizePolicy.NEVER
    max_cost: Money | None = None
    complete_by: Instant | None = None


def manifests(of: SubmittedJob) -> tuple[Json, Json | None]:
    """The TrainingJob, and the ConfigMap that it needs, if it needs one."""
    code_map = _code_map(of, of.code) if isinstance(of.code, bytes) else None
    return _training_job(of, code_map), code_map


def owned_by(code_map: Json, training_job: Mapping[str, Any]) -> Json:
    """The ConfigMap as one that goes with the TrainingJob, which has been created."""
    metadata = training_job["metadata"]
    owner = {"apiVersion": API_VERSION, "kind": "TrainingJob", "name": metadata["name"], "uid": metadata["uid"]}
    return code_map | {"metadata": code_map["metadata"] | {"ownerReferences": [owner]}}


def as_yaml(training_job: Json, code_map: Json | None) -> str:
    """Both as YAML that kubectl reads as it was meant: every text that some reader takes for a number is quoted."""
    objects = [training_job] if code_map is None else [code_map, training_job]
    text = yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    if code_map is None:
        return text
    return (
        "# Apply it with --server-side: a large ConfigMap does not fit into the annotation of a client-side apply.\n"
        f"# Nobody owns the ConfigMap then: delete {code_map['metadata']['name']} with the job.\n{text}"
    )


class _Dumper(yaml.SafeDumper):
    """PyYAML reads ``1e-3`` and ``y`` as texts and writes them so; kubectl would read a number and a truth."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if "\n" in text and text.endswith("\n"):
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
    plain = _PLAIN.fullmatch(text) and not _WORDS.fullmatch(text)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def _metadata(of: SubmittedJob, name: str) -> Json:
    return {"name": name, **({} if of.namespace is None else {"namespace": of.namespace})}


def _code_map(of: SubmittedJob, tarball: bytes) -> Json:
    """Its name contains what is in it: the same code applied again is the same object."""
    digest = hashlib.sha256(tarball).hexdigest()[:10]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(of, f"{of.name}-code-{digest}"),
        "immutable": True,
        "binaryData": {_TARBALL: base64.b64encode(tarball).decode()},
    }


def _training_job(of: SubmittedJob, code_map: Json | None) -> Json:
    spec: Json = {"gpus": {"min": of.gpus.min, "max": of.gpus.max}}
    if of.resize is not ResizePolicy.NEVER:
        spec["resizePolicy"] = of.resize.value
    if of.profile is not None:
        spec["profileName"] = of.profile
    if of.gpu_types:
        spec["gpuTypes"] = list(of.gpu_types)
    if of.spot:
        spec["spotPolicy"] = SpotPolicy.ALLOWED.value
    if of.max_cost is not None:
        spec["maxCost"] = of.max_cost.written()
    if of.complete_by is not None:
        spec["targetCompletionTime"] = format_second(of.complete_by)
    spec["template"] = {"spec": _pod(of, code_map)}
    return {"apiVersion": API_VERSION, "kind": "TrainingJob", "metadata": _metadata(of, of.name), "spec": spec}


def _pod(of: SubmittedJob, code_map: Json | None) -> Json:
    """Shared memory is the node's, as far as the container may use memory: loaders of data pass samples through it."""
    volumes: list[Json] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    mounts: list[Json] = [{"name": "shm", "mountPath": "/dev/shm"}]
    for number, volume in enumerate(of.volumes):
        volumes.append({"name": f"volume-{number}", "persistentVolumeClaim": {"claimName": volume.claim}})
        mounts.append({"name": f"volume-{number}", "mountPath": volume.path})
    container: Json = {"name": "trainer", "image": of.image, "command": list(of.command)}
    pod: Json = {}
    if of.spot or of.resize is not ResizePolicy.NEVER:
        pod["terminationGracePeriodSeconds"] = _GRACE_SECONDS
    if of.code is not None:
        workspace: Json = {"name": "workspace", "mountPath": WORKSPACE}
        volumes.append({"name": "workspace", "emptyDir": {}})
        mounts.append(workspace)
        below = of.code.directory.rstrip("/") if isinstance(of.code, GitSource) else ""
        container["workingDir"] = f"{WORKSPACE}/{below}".rstrip("/")
        pod["initContainers"] = [_fetcher(of, of.code, workspace) if code_map is None else _unpacker(of, workspace)]
        if code_map is not None:
            volumes.append({"name": "code", "configMap": {"name": code_map["metadata"]["name"]}})
    if of.environment:
        container["env"] = [{"name": name, "value": value} for name, value in of.environment.items()]
    return pod | {"containers": [container | {"volumeMounts": mounts}], "volumes": volumes}


def _unpacker(of: SubmittedJob, workspace: Json) -> Json:
    """By the image's own Python, since what trains in Python has one, and not each has tar."""
    return {
        "name": "code",
        "image": of.image,
        "command": ["python3", *UNPACK, f"{_PACKED}/{_TARBALL}", WORKSPACE],
        "volumeMounts": [{"name": "code", "mountPath": _PACKED, "readOnly": True}, workspace],
    }


def _fetcher(of: SubmittedJob, source: object, workspace: Json) -> Json:
    assert isinstance(source, GitSource)
    return {
        "name": "code",
        "image": of.git_image,
        "command": ["sh", "-c", _FETCH, "fetch", source.url, source.commit],
        "workingDir": WORKSPACE,
        "volumeMounts": [workspace],
    }
