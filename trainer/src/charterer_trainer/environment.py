"""The variables that Charterer sets for a training pod. They are read once, and malformed variables are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


def whole(text: object) -> int | None:
    """``text`` as a whole number of at least 0, or None if it is something else."""
    if isinstance(text, bool) or not isinstance(text, (int, str)):
        return None
    try:
        number = int(text)
    except ValueError:
        return None
    return number if number >= 0 else None


@dataclass(frozen=True)
class Environment:
    """The environment of a training process. ``progress_url`` is empty outside Charterer.

    ``index`` is the pod's rank, ``local_rank`` the process's rank in its pod. ``pods`` and ``gpus_per_pod`` are the
    values at the start of the run. A resize in place does not change them.
    """

    progress_url: str
    ca_pem: str
    token_file: Path
    run: int | None
    index: int
    local_rank: int
    pods: int | None
    gpus_per_pod: int | None
    coordinator: str

    @property
    def allocation_file(self) -> Path:
        """The downward API's file with the allocation annotation, beside the token."""
        return self.token_file.with_name("allocation")

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Environment:
        """Read variables from a mapping such as ``os.environ``. Missing or malformed variables get their defaults."""
        index = whole(environ.get("PET_NODE_RANK"))
        if index is None:
            index = whole(environ.get("JOB_COMPLETION_INDEX"))
        return cls(
            progress_url=environ.get("CHARTERER_PROGRESS_URL", "").rstrip("/"),
            ca_pem=environ.get("CHARTERER_CA", ""),
            token_file=Path(environ.get("CHARTERER_TOKEN_FILE") or "/var/run/secrets/charterer.dev/token"),
            run=whole(environ.get("CHARTERER_RUN")),
            index=index or 0,
            local_rank=whole(environ.get("LOCAL_RANK")) or 0,
            pods=whole(environ.get("PET_NNODES")),
            gpus_per_pod=whole(environ.get("PET_NPROC_PER_NODE")),
            coordinator=environ.get("JAX_COORDINATOR_ADDRESS", ""),
        )
