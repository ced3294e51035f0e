"""How GPU types are compared that nobody has measured yet, as ``charterer explain`` says it."""

from __future__ import annotations

from collections.abc import Mapping

from charterer.gpu_types import RelativeSpeed, data_sheet
from charterer.sentences import names


def assumed_speeds_sentence(assumed: Mapping[str, RelativeSpeed]) -> str:
    """With what each type is compared, and by what; empty where nothing is assumed, or there is only one type."""
    if len(assumed) < 2:
        return ""
    known = {gpu_type: speed for gpu_type, speed in sorted(assumed.items()) if data_sheet(gpu_type) is not None}
    guessed = {gpu_type: speed for gpu_type, speed in sorted(assumed.items()) if gpu_type not in known}
    if not known:
        return (
            f"Nothing is measured yet, and Charterer knows no data sheet of {names(guessed)}: "
            "whole GPUs count as equally fast."
        )
    fastest = [gpu_type for gpu_type, speed in known.items() if speed.low == 1.0]
    others = [f"{each} is assumed to have {_of_it(speed)}" for each, speed in known.items() if each not in fastest]
    others += [
        f"of {each} Charterer knows no data sheet, so it is guessed from its price to have {_of_it(speed)}"
        for each, speed in guessed.items()
    ]
    if not others:
        return ""
    return f"Nothing is measured yet, so data sheets compare GPU types with {', '.join(fastest)}: {'; '.join(others)}."


def _of_it(speed: RelativeSpeed) -> str:
    return f"{speed.estimate:.0%} of its speed ({speed.low:.0%} to {speed.high:.0%})"
