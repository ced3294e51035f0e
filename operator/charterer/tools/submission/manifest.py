"""The objects of a submission: a TrainingJob, a ConfigMap with its code, and both as YAML."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import re
import subprocess
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import urlsplit

import click
import yaml

from charterer.api.models.base import Json, dump
from charterer.api.models.trainingjob import QuoteSpec
from charterer.api.names import API_VERSION
from charterer.domain.job import ResizePolicy, SpotPolicy, Widths
from charterer.domain.job_quote import JobQuote
from charterer.domain.money import Money
from charterer.domain.time import Instant, format_second
from charterer.sentences import count, names

# Calls of git on this machine, and the commit that the pods fetch.


_FULL_ID: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SCP_LIKE: Final = re.compile(r"(?:[^/@]+@)?([^/:@]+):(?!//)(.+)")
_SCHEMES: Final = ("https", "http", "git")


@dataclass(frozen=True, slots=True)
class GitSource:
    """A commit by its full id. ``directory`` is the working directory in the repository, empty for the top.

    ``warnings`` has a sentence for each possible mistake of the user.
    """

    url: str
    commit: str
    directory: str = ""
    warnings: tuple[str, ...] = ()


def git_output(directory: Path, *arguments: str, may_fail: bool = False) -> str:
    """Return git's output. If git fails, return an empty text if ``may_fail``, otherwise raise ClickException."""
    try:
        ran = subprocess.run(["git", "-C", str(directory), *arguments], capture_output=True, check=False)
    except FileNotFoundError as error:
        raise click.ClickException("git is not installed here: install it, or give --no-code") from error
    if ran.returncode == 0:
        return ran.stdout.decode(errors="surrogateescape").removesuffix("\n")
    if may_fail:
        return ""
    said = ran.stderr.decode(errors="replace").strip().removeprefix("fatal: ")
    if "not a git repository" in said:
        raise click.ClickException(
            f"{directory} is in no git repository: git init, git add what the job needs and git commit; "
            "or give --git URL@COMMIT, or --no-code with an --image that contains the code"
        )
    raise click.ClickException(f"git {arguments[0]}: {said}")


def git_paths(directory: Path, *arguments: str) -> Sequence[str]:
    """Return the paths that a git command prints with ``-z``."""
    return [path for path in git_output(directory, *arguments).split("\0") if path]


def git_source(directory: Path, given: str) -> GitSource:
    """Return the commit of ``[URL@]COMMIT``. If there is no URL, the repository is the remote ``origin`` of
    ``directory``.

    Raises ClickException if pods could not fetch the commit, or if the name could mean another commit later.
    """
    url, _, commit = given.rpartition("@")
    if "://" not in url and not _SCP_LIKE.fullmatch(url):
        return _of_origin(directory, given)
    if not _FULL_ID.fullmatch(commit):
        raise click.ClickException(
            f"--git {given}: {commit!r} is no commit by its full id: a branch or a tag may be another one when the job "
            f"is started again; `git ls-remote {url} {commit}` prints the id"
        )
    return GitSource(_fetchable(url, commit), commit)


def _of_origin(directory: Path, revision: str) -> GitSource:
    commit = git_output(directory, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", may_fail=True)
    if not commit:
        git_output(directory, "rev-parse", "--git-dir")  # raises ClickException if this is no repository
        raise click.ClickException(
            f"--git {revision}: git knows no such commit here; to name another repository: URL@COMMIT"
        )
    url = git_output(directory, "remote", "get-url", "origin", may_fail=True)
    if not url:
        raise click.ClickException(f"--git {revision}: this repository has no remote origin: give URL@COMMIT")
    pushed = git_output(directory, "branch", "--remotes", "--contains", commit, may_fail=True)
    warnings = (
        () if pushed else (f"no remote branch contains commit {commit[:10]}, as far as git knows here: git push it",)
    )
    return GitSource(_fetchable(url, commit), commit, git_output(directory, "rev-parse", "--show-prefix"), warnings)


def _fetchable(url: str, commit: str) -> str:
    """Return the URL. Raises ClickException if a pod cannot fetch from it without keys and passwords."""
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        like = _SCP_LIKE.fullmatch(url)
        host, path = (like[1], like[2]) if like else (parts.hostname or "", parts.path.lstrip("/"))
        instead = f"--git https://{host}/{path}@{commit}" if host else f"--git https://...@{commit}"
        raise click.ClickException(
            f"the pods cannot fetch from {url}: they have no keys and none of your files. If the repository can be "
            f"read without, give {instead}; otherwise leave --git out, or give --no-code with an --image that contains "
            "the code"
        )
    if parts.username or parts.password:
        raise click.ClickException(
            f"the URL of {parts.hostname} contains a user or password, which everybody who may read the job would see: "
            "give --git URL@COMMIT without"
        )
    return url


# Names of files and variables that usually hold secrets. Anyone who may read a job can read its code and variables.


_FILES: Final = re.compile(
    r"\.env(\..*)?|\.?netrc|\.pypirc|\.git-credentials|\.dockercfg|\.dockerconfigjson|\.htpasswd|\.pgpass|"
    r"id_(rsa|dsa|ecdsa|ed25519)|(.*[._-])?kubeconfig(\.ya?ml)?|.*\.(key|p12|pfx|jks|kdbx)|.*[-_.]?key\.pem|"
    r"(.*[-_])?service[-_]?account(.*)?\.json|(.*[-_.])?credentials(\.(json|ya?ml|ini|csv))?|"
    r"(.*[-_.])?secrets?(\.(json|ya?ml|ini|toml|env))?",
    re.IGNORECASE,
)
_EXAMPLES: Final = re.compile(r".*[._-](example|sample|template|dist)(\..*)?", re.IGNORECASE)
_PATHS: Final = (".kube/config", ".docker/config.json", ".config/gcloud/application_default_credentials.json")
_VARIABLES: Final = re.compile(
    r"(.*_)?(API_?KEY|ACCESS_KEY|SECRET(_.*)?|PRIVATE_KEY|TOKEN|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)", re.IGNORECASE
)


def secret_files(paths: Iterable[str]) -> Sequence[str]:
    """Return the paths that usually hold secrets. Names of example files are excluded."""

    def tells(path: str) -> bool:
        name = PurePosixPath(path).name
        known = _FILES.fullmatch(name) is not None and _EXAMPLES.fullmatch(name) is None
        return known or any(path == end or path.endswith(f"/{end}") for end in _PATHS)

    return [path for path in paths if tells(path)]


def secret_variables(names: Iterable[str]) -> Sequence[str]:
    """Return the variables that usually hold secrets."""
    return [name for name in names if _VARIABLES.fullmatch(name)]


# The job's code: the files that git tracks in a directory, as a reproducible tarball.


MOST_BYTES: Final = 900_000
"""Largest tarball. A ConfigMap holds 1 MiB. An etcd request holds 1.5 MiB, and base64 adds a third."""
_TIME: Final = 946_684_800
"""Modification time of each file in seconds since 1970, for 2000-01-01. Some programs warn of dates in 1970."""
_SHOWN_FILES: Final = 5
_OTHERWISE: Final = "give --git COMMIT, by which the pods fetch the code, or --no-code with an --image that contains it"


@dataclass(frozen=True, slots=True)
class CodeArchive:
    """The bytes of a ``.tar.gz``, and a sentence for each possible mistake of the user."""

    content: bytes
    warnings: tuple[str, ...]


def archive_of(directory: Path) -> CodeArchive:
    """Pack the tracked files of the directory and its subdirectories in their present state. Raises ClickException."""
    tracked = git_paths(directory, "ls-files", "-z", "--recurse-submodules")
    files = [path for path in tracked if (directory / path).is_symlink() or (directory / path).is_file()]
    outside = [path for path in files if _leads_out(directory, path)]
    files = [path for path in files if path not in set(outside)]
    if not files:
        raise click.ClickException(f"git tracks no file in {directory}: git add what the job needs, or {_OTHERWISE}")
    modules = [path for path in tracked if (directory / path).is_dir() and not (directory / path).is_symlink()]
    warnings = [*_differences(directory)]
    if outside:
        warnings.append(f"links that lead out of the directory are left out: {names(outside)}")
    if secret := secret_files(files):
        warnings.append(
            f"{names(secret)} may hold secrets, and {_verb(secret, 'goes', 'go')} into a ConfigMap, which whoever may "
            "view the namespace reads: git rm --cached, or use a Secret"
        )
    if modules:
        warnings.append(f"submodules without files are left out ({names(modules)}): git submodule update --init")
    return CodeArchive(_packed(directory, files), tuple(warnings))


def _leads_out(directory: Path, path: str) -> bool:
    """Return whether the path is a link out of the directory, or lies below such a link.

    Extractors refuse these links.
    """
    file = directory / path
    if not file.parent.resolve().is_relative_to(directory.resolve()):
        return True
    if not file.is_symlink():
        return False
    target = os.readlink(file)
    return os.path.isabs(target) or os.path.normpath(os.path.join(os.path.dirname(path), target)).startswith("..")


def _differences(directory: Path) -> Sequence[str]:
    untracked = git_paths(directory, "ls-files", "-z", "--others", "--exclude-standard")
    commit = git_output(directory, "rev-parse", "--verify", "--quiet", "--short", "HEAD", may_fail=True)
    said = []
    if untracked:
        stays = _verb(untracked, "stays here: it is", "stay here: they are")
        said.append(f"{names(untracked)} {stays} not tracked by git; git add what the job needs")
    if not commit:
        said.append("nothing is committed yet: nobody can tell later which code the job ran")
    elif changed := git_paths(directory, "diff", "--name-only", "--relative", "-z", "HEAD", "--", "."):
        differs, goes = (
            _verb(changed, "differs", "differ"),
            _verb(changed, "goes along as it is", "go along as they are"),
        )
        said.append(f"{names(changed)} {differs} from commit {commit} and {goes} here")
    return said


def _verb(things: Sequence[str], one: str, many: str) -> str:
    return one if len(things) == 1 else many


class _Full(Exception):
    pass


class _Bounded(io.BytesIO):
    def write(self, data: bytes) -> int:  # type: ignore[override]
        if self.tell() + len(data) > MOST_BYTES:
            raise _Full
        return super().write(data)


def _packed(directory: Path, files: Sequence[str]) -> bytes:
    packed = _Bounded()
    try:
        with (
            gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as compressed,
            tarfile.open(fileobj=compressed, mode="w") as tarball,
        ):
            for path in sorted(files):
                _add(tarball, directory / path, path)
    except _Full:
        raise click.ClickException(_too_large(directory, files)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename} cannot be read: {error.strerror}") from error
    return packed.getvalue()


def _add(tarball: tarfile.TarFile, file: Path, path: str) -> None:
    """Add a file without data that depends on the machine or the time: owner, modification time and other
    permissions.
    """
    entry = tarfile.TarInfo(path)
    entry.mtime = _TIME
    if file.is_symlink():
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, os.readlink(file), 0o777
        tarball.addfile(entry)
        return
    with file.open("rb") as content:
        seen = os.fstat(content.fileno())
        entry.size, entry.mode = seen.st_size, 0o755 if seen.st_mode & 0o100 else 0o644
        tarball.addfile(entry, content)


def _too_large(directory: Path, files: Sequence[str]) -> str:
    sizes = {path: (directory / path).lstat().st_size for path in files}
    largest = sorted(sizes, key=lambda path: (-sizes[path], path))[:_SHOWN_FILES]
    listed = "".join(f"\n  {sizes[path]:>13,} bytes  {path}" for path in largest)
    return (
        f"the code in {directory} is too large: {count(len(files), 'file')} that git tracks there make a tarball of "
        f"more than {MOST_BYTES:,} bytes. Keep data in a volume or a bucket; or {_OTHERWISE}. The largest:{listed}"
    )


WORKSPACE: Final = "/workspace"
_PACKED: Final = "/var/run/charterer-code"
_TARBALL: Final = "code.tar.gz"
_GRACE_SECONDS: Final = 120
"""Grace period in seconds in which a job that may move saves a checkpoint."""
UNPACK: Final = (
    *("-I", "-W", "ignore", "-c"),
    "import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])",
)
"""Arguments of Python that stand before the tarball and the directory. ``-W ignore`` hides tarfile's deprecation
warnings.
"""
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
    """A PersistentVolumeClaim and its mount path."""

    claim: str
    path: str


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job that is not created yet. ``namespace`` None means the namespace of whoever applies the manifest.

    ``code`` is a tarball, a commit to fetch, or None if the image has the code. ``git_image`` is an image with git.
    ``warnings`` has a sentence for each possible mistake of the user.
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
    quote: JobQuote | None = None
    warnings: tuple[str, ...] = ()


def manifests(of: NewJob) -> tuple[Json, Json | None]:
    """Make the TrainingJob, and its ConfigMap or None."""
    code_map = _code_map(of, of.code) if isinstance(of.code, bytes) else None
    return _training_job(of, code_map), code_map


def owned_by(code_map: Json, training_job: Mapping[str, Any]) -> Json:
    """Add the TrainingJob as owner of the ConfigMap. The TrainingJob must exist already."""
    metadata = training_job["metadata"]
    owner = {"apiVersion": API_VERSION, "kind": "TrainingJob", "name": metadata["name"], "uid": metadata["uid"]}
    return code_map | {"metadata": code_map["metadata"] | {"ownerReferences": [owner]}}


def as_yaml(training_job: Json, code_map: Json | None) -> str:
    """Format both objects as YAML for kubectl. A text that a YAML parser could read as another type is quoted."""
    objects = [training_job] if code_map is None else [code_map, training_job]
    text = yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    if code_map is None:
        return text
    return (
        "# Apply it with --server-side: a large ConfigMap does not fit into the annotation of a client-side apply.\n"
        f"# Nobody owns the ConfigMap then: delete {code_map['metadata']['name']} with the job.\n{text}"
    )


class _Dumper(yaml.SafeDumper):
    """Quotes texts such as ``1e-3`` and ``y``, which kubectl reads as a number or a boolean, but PyYAML as text."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if "\n" in text and text.endswith("\n"):
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
    plain = _PLAIN.fullmatch(text) and not _WORDS.fullmatch(text)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def _metadata(of: NewJob, name: str) -> Json:
    return {"name": name, **({} if of.namespace is None else {"namespace": of.namespace})}


def _code_map(of: NewJob, tarball: bytes) -> Json:
    """Make the ConfigMap. Its name has a digest of the content, so applying the same code again changes nothing."""
    digest = hashlib.sha256(tarball).hexdigest()[:10]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(of, f"{of.name}-code-{digest}"),
        "immutable": True,
        "binaryData": {_TARBALL: base64.b64encode(tarball).decode()},
    }


def _training_job(of: NewJob, code_map: Json | None) -> Json:
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
    if of.quote is not None:
        spec["quote"] = dump(QuoteSpec.from_domain(of.quote))
    spec["template"] = {"spec": _pod(of, code_map)}
    return {"apiVersion": API_VERSION, "kind": "TrainingJob", "metadata": _metadata(of, of.name), "spec": spec}


def _pod(of: NewJob, code_map: Json | None) -> Json:
    """Make the pod template. /dev/shm may use all memory of the container, as data loaders pass samples through it."""
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


def _unpacker(of: NewJob, workspace: Json) -> Json:
    """Make the init container that unpacks the code with the image's Python. Not every image has tar."""
    return {
        "name": "code",
        "image": of.image,
        "command": ["python3", *UNPACK, f"{_PACKED}/{_TARBALL}", WORKSPACE],
        "volumeMounts": [{"name": "code", "mountPath": _PACKED, "readOnly": True}, workspace],
    }


def _fetcher(of: NewJob, source: object, workspace: Json) -> Json:
    assert isinstance(source, GitSource)
    return {
        "name": "code",
        "image": of.git_image,
        "command": ["sh", "-c", _FETCH, "fetch", source.url, source.commit],
        "workingDir": WORKSPACE,
        "volumeMounts": [workspace],
    }
