"""Faults of the cloud's API, injected on purpose: throttling, errors, lost answers, slowness, empty lists."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import Field

from charterer.fakecloud.base import Written


class FaultKind(StrEnum):
    """The fault of a call. LOST_ANSWER: it takes effect but gets no answer. LOST_REQUEST: no effect and no answer.

    EMPTY_LIST: a list of instances has none.
    """

    THROTTLE = "throttle"
    ERROR = "error"
    LOST_ANSWER = "lost-answer"
    LOST_REQUEST = "lost-request"
    SLOW = "slow"
    EMPTY_LIST = "empty-list"


class Match(Written):
    """The calls that a fault hits: an HTTP method (None: any) and a shell-style pattern for the path."""

    method: str | None = None
    path: str = "*"


class FaultSpec(Written):
    """One fault. It hits ``times`` calls (None: all), each matching call with ``probability``.

    ``status``, ``code`` and ``message`` are for errors, ``retry_after_seconds`` for throttling, ``seconds`` is the
    delay of a slow answer after the call took effect.
    """

    kind: FaultKind
    match: Match = Match()
    times: Annotated[int, Field(ge=1)] | None = 1
    probability: Annotated[float, Field(gt=0, le=1)] = 1.0
    status: Annotated[int, Field(ge=400, le=599)] = 500
    code: str = "InternalError"
    message: str = "an injected fault"
    retry_after_seconds: Annotated[int, Field(ge=0)] = 1
    seconds: Annotated[float, Field(ge=0)] = 1.0


@dataclass(slots=True)
class _Armed:
    spec: FaultSpec
    left: int | None


class Faults:
    """The faults that wait for their calls. They are kept in memory only: a restart has those of the configuration."""

    def __init__(self, seed: int, specs: tuple[FaultSpec, ...] = ()) -> None:
        self._random = random.Random(f"{seed}/faults")
        self._armed = [_Armed(spec, spec.times) for spec in specs]

    def add(self, spec: FaultSpec) -> None:
        """Arm another fault; earlier ones are tried first."""
        self._armed.append(_Armed(spec, spec.times))

    def clear(self) -> None:
        """Remove all faults."""
        self._armed.clear()

    def waiting(self) -> list[FaultSpec]:
        """The faults that will still hit, with the ``times`` they have left."""
        return [fault.spec.model_copy(update={"times": fault.left}) for fault in self._armed]

    def draw(self, method: str, path: str) -> FaultSpec | None:
        """The fault that hits this call, counted as used; None when it goes through."""
        for fault in self._armed:
            match = fault.spec.match
            if match.method not in (None, method) or not fnmatchcase(path, match.path):
                continue
            if self._random.random() >= fault.spec.probability:
                continue
            if fault.left is not None:
                fault.left -= 1
                if fault.left == 0:
                    self._armed.remove(fault)
            return fault.spec
        return None
