"""The name of the TrainingJob of an adopted object."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from charterer.domain.jobs.target import TargetRef

_LONGEST: Final = 45
_LEGAL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_DIGITS: Final = 8


def shadow_names(ref: TargetRef) -> tuple[str, str]:
    """The object's own name, empty where a TrainingJob cannot have it, and one with a hash for where it is taken."""
    legal = _LEGAL.fullmatch(ref.name) is not None and len(ref.name) <= _LONGEST
    plain = re.sub(r"[^a-z0-9]+", "-", ref.name.lower()).strip("-")
    start = plain if plain[:1].isalpha() else f"{ref.kind.lower()}-{plain}"
    room = _LONGEST - _DIGITS - 1
    return (
        ref.name if legal else "",
        f"{start[:room].rstrip('-')}-{hashlib.sha256(ref.uid.encode()).hexdigest()[:_DIGITS]}",
    )
