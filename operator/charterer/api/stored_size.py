"""How many bytes a value takes in the API server's store, and texts cut to a number of bytes.

The API server stores JSON as Go writes it: control characters, ``<``, ``>``, ``&`` and the two separators of lines and
paragraphs take six bytes each, other characters their UTF-8. etcd refuses objects above 1.5 MiB.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

LARGEST_OBJECT_BYTES: Final = 1_000_000
"""Most bytes of an object with all that Charterer may come to write into it. What others may add to an object without
a new generation, annotations above all, fits between this and what etcd takes."""

_ESCAPED: Final = re.compile(r"[<>&\u2028\u2029\x00-\x1f\x7f]")
_ESCAPE_BYTES: Final = 6
_ELLIPSIS: Final = "…"


def stored_bytes(value: Any) -> int:
    """Bytes of a JSON value as it is stored, at most. RecursionError for one that is nested too deeply."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode(errors="surrogatepass")) + (_ESCAPE_BYTES - 1) * len(_ESCAPED.findall(text))


def cut(text: str, most_bytes: int) -> str:
    """The text, or as much of its beginning as takes that many bytes with an ellipsis at its end."""
    if len(text) * _ESCAPE_BYTES <= most_bytes:
        return text
    left, kept = most_bytes, 0
    for number, character in enumerate(text, start=1):
        left -= _character_bytes(character)
        if left < 0:
            return text[:kept] + _ELLIPSIS
        if left >= len(_ELLIPSIS.encode()):
            kept = number
    return text


def tail(text: str, most_bytes: int) -> str:
    """The text, or as much of its end as takes that many bytes with an ellipsis at its beginning."""
    left = most_bytes - len(_ELLIPSIS.encode())
    for kept, character in enumerate(reversed(text)):
        left -= _character_bytes(character)
        if left < 0:
            return text if len(text) == kept else _ELLIPSIS + text[len(text) - kept :]
    return text


def _character_bytes(character: str) -> int:
    if _ESCAPED.match(character):
        return _ESCAPE_BYTES
    return 2 if character in '"\\' else len(character.encode(errors="surrogatepass"))
