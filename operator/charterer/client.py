"""Submit a job, wait for its end, ask why it has its GPUs and who spent what: what ``charterer run`` itself uses.

Every function reads the cluster of a kubeconfig, as the commands do, and raises ClientError with what is wrong and what
to do. Its sentences name the options of the commands; the parameters here have the same names. All may be called where
an event loop runs, as in a notebook; they return when they are done.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final, TypeAlias

import click

from charterer.domain.job import ResizePolicy, Widths
from charterer.domain.money import Money
from charterer.domain.time import instant
from charterer.sentences import names
from charterer.tools.commands.shared.cluster import ClusterOptions, call
from charterer.tools.commands.shared.output import JsonValue
from charterer.tools.submission.creation import Ended, Look, SubmittedJob, submitted, until_ended
from charterer.tools.submission.manifest import NewJob, Volume, archive_of, git_source, secret_variables

__all__ = [
    "ClientError",
    "ClusterOptions",
    "Ended",
    "NewJob",
    "SubmittedJob",
    "costs",
    "explain",
    "new_job",
    "submit",
    "wait",
]

Answer: TypeAlias = Mapping[str, JsonValue]
"""An answer of a command as JSON."""
DEFAULT: Final = ClusterOptions()
"""The cluster of the kubeconfig's current context."""


class ClientError(click.ClickException):
    """An error with its remedy. The commands print this message and end with exit code 1."""

    def __str__(self) -> str:
        return self.message


def new_job(
    command: Sequence[str],
    *,
    gpus: int | tuple[int, int],
    image: str = "",
    name: str = "",
    namespace: str | None = None,
    directory: Path = Path(),
    git: str | None = None,
    no_code: bool = False,
    profile: str | None = None,
    gpu_types: Sequence[str] = (),
    spot: bool = False,
    resize: str = "Never",
    max_cost: str | None = None,
    complete_by: datetime | None = None,
    env: Mapping[str, str] | None = None,
    volumes: Sequence[tuple[str, str]] = (),
) -> NewJob:
    """A job that is not submitted yet; ``warnings`` has a sentence for each thing that may not be what was meant.

    ``gpus``: a number of GPUs, or the least and the most. ``image``, ``name`` and ``namespace``: by default those of
    the ConfigMap charterer-run, of the script, and of the kubeconfig's context. The files that git tracks in
    ``directory`` go along, 900 kB packed at most, unless the pods fetch ``git`` (``[URL@]COMMIT``), or the image has
    the code (``no_code``). ``resize``: Never, Restart or InPlace. ``max_cost``: dollars, such as "20.50".
    ``complete_by``: with a time zone. ``volumes``: names of PersistentVolumeClaims, each with
    the path where it is seen.

    Raises ClientError for what can be seen to be wrong without a cluster.
    """
    with _errors():
        if git is not None and no_code:
            raise ClientError("--git and --no-code exclude each other: does the image have the code, or not?")
        if not command:
            raise ClientError("the command is empty: write the program and its arguments, as ['python', 'train.py']")
        archive = archive_of(directory.resolve()) if git is None and not no_code else None
        source = None if git is None else git_source(directory.resolve(), git)
        found = archive or source
        return NewJob(
            name=name or _name_for(command),
            namespace=namespace,
            image=image,
            command=tuple(command),
            gpus=_widths(gpus),
            code=source if archive is None else archive.content,
            git_image="",
            environment=dict(env or {}),
            volumes=tuple(Volume(claim, path) for claim, path in volumes),
            profile=profile,
            gpu_types=tuple(gpu_types),
            spot=spot,
            resize=_resize(resize),
            max_cost=None if max_cost is None else _dollars(max_cost),
            complete_by=None if complete_by is None else instant(_with_zone(complete_by)),
            warnings=(*(() if found is None else found.warnings), *_secrets(env or {})),
        )


def submit(job: NewJob, cluster: ClusterOptions = DEFAULT) -> SubmittedJob:
    """Create the TrainingJob and the ConfigMap with its code, both or nothing; the operator looks at it afterwards.

    Raises ClientError, also where no budget pays for the namespace or no pool is large enough: then nothing is created.
    """
    with _errors():
        return call(cluster, lambda client: submitted(client, job))


def wait(
    job: SubmittedJob,
    cluster: ClusterOptions = DEFAULT,
    *,
    seconds: float | None = None,
    tell: Callable[[str], None] = lambda sentence: None,
    look: Look | None = None,
) -> Ended:
    """Wait until the job has ended, for ``seconds`` at most (default: however long it takes).

    ``tell`` hears why nothing is known for a while, as that the API server does not answer. ``look`` is awaited with
    the job each second. Raises TimeoutError when it has not ended in time, and ClientError when it was deleted.
    """
    with _errors():
        return call(cluster, lambda client: until_ended(client, job, tell, look), within=seconds)


def explain(job: SubmittedJob | str, cluster: ClusterOptions = DEFAULT, *, namespace: str | None = None) -> Answer:
    """The answer of ``charterer explain -o json``. Seconds are numbers, and dollars are decimal texts.

    ``job``: a submitted one, or NAME, tj/NAME, job/NAME in ``namespace`` (default: the context's). Who may not read the
    whole cluster gets what the operator wrote into the job's status. Raises ClientError.
    """
    from charterer.tools.commands.explain.command import explained
    from charterer.tools.commands.shared.one_namespace import job_name

    where = job.namespace if isinstance(job, SubmittedJob) else namespace
    with _errors():
        return explained(cluster, job_name(job.name if isinstance(job, SubmittedJob) else job), where).plain


def costs(
    cluster: ClusterOptions = DEFAULT,
    *,
    month: str | None = None,
    record: str = "",
    budgets: Sequence[str] = (),
    by: Sequence[str] = ("namespace",),
    share_waste: bool = False,
    recorded_only: bool = False,
) -> Answer:
    """The answer of ``charterer costs -o json``. Dollars are decimal texts, to the micro-dollar.

    ``month``: such as "2026-11", by default this one. ``record``: the place of the record of costs; without one there
    are namespaces, purposes and causes of the last 62 days. Raises ClientError.
    """
    from charterer.tools.commands.costs.command import found_costs, question_of
    from charterer.tools.commands.costs.document import costs_json

    with _errors():
        question = question_of(month, record, budgets, by, share_waste=share_waste, recorded_only=recorded_only)
        return costs_json(found_costs(question, cluster))


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except ClientError:
        raise
    except click.ClickException as error:
        raise ClientError(error.format_message()) from error


_LONGEST_NAME: Final = 45
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Letters for random parts of names, as in Kubernetes. Without vowels, no real words appear."""


def _name_for(command: Sequence[str]) -> str:
    """Make a name from the script's name, so that lists are readable."""
    script = next((word for word in command if word.endswith((".py", ".sh"))), command[0])
    stem = re.sub("[^a-z0-9]+", "-", Path(script).stem.lower()).strip("-0123456789") or "job"
    suffix = "".join(secrets.choice(_LETTERS) for _ in range(5))
    return f"{stem[: _LONGEST_NAME - 6].rstrip('-')}-{suffix}"


def _widths(gpus: int | tuple[int, int]) -> Widths:
    least, most = (gpus, gpus) if isinstance(gpus, int) else gpus
    if not 1 <= least <= most:
        raise ClientError(f"gpus is {gpus!r}: write a number of GPUs, 4, or the least and the most, (4, 32)")
    return Widths(least, least, most)


def _resize(given: str) -> ResizePolicy:
    try:
        return ResizePolicy(given)
    except ValueError as error:
        raise ClientError(f"resize is {given!r}: write {', '.join(ResizePolicy)}") from error


def _dollars(given: str) -> Money:
    try:
        amount = Money.given(given)
    except ValueError as error:
        raise ClientError(f"max_cost: {error}") from error
    if amount.micros <= 0:
        raise ClientError(f"max_cost is {given!r}: a job that may cost nothing can never run")
    return amount


def _with_zone(given: datetime) -> datetime:
    if given.tzinfo is None:
        raise ClientError(f"complete_by is {given.isoformat()}, which has no time zone: add tzinfo=datetime.UTC")
    return given


def _secrets(env: Mapping[str, str]) -> Sequence[str]:
    if not (secret := secret_variables(env)):
        return ()
    return (
        f"{names(secret)} may be secret, and whoever may read the job sees it: begin with charterer run --dry-run, and "
        "take it from a Secret by valueFrom.secretKeyRef",
    )
