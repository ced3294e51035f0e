"""The dry run: each mutation is logged once, with its object and content, and none is sent."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from charterer.cluster.errors import Withheld

_log = logging.getLogger(__name__)

_REMEMBERED: Final = 100_000
"""Mutations that are remembered, so that one that is tried again and again is logged once."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_REVIEWS: Final = ("tokenreviews", "selfsubjectaccessreviews")
"""Resources that are created only to ask something."""
_SECRET: Final = ("data", "stringData")
"""Fields of a Secret that are left out."""
_HIDDEN: Final = "(not logged)"


class DryRunLog:
    """Logs what would be written. Values of Secrets and of environment variables are left out."""

    def __init__(self) -> None:
        self._logged: OrderedDict[bytes, None] = OrderedDict()

    def withhold(self, method: str, path: str, body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None) -> None:
        """Log the mutation and raise Withheld; what only asks something passes."""
        if path.rpartition("/")[2] in _REVIEWS:
            return
        content = json.dumps(
            _without_secrets(body, _SECRET if "/secrets" in path else ()), separators=(",", ":"), default=str
        )
        text = f"{method} {path} {content}"
        same = hashlib.sha256(_TIME.sub("", text).encode()).digest()
        if same not in self._logged:
            self._logged[same] = None
            _log.info("dry run, not written: %s", text)
            while len(self._logged) > _REMEMBERED:
                self._logged.popitem(last=False)
        raise Withheld(method, path, 0, "DryRun", "not sent: this is a dry run")


def _without_secrets(value: object, hidden: tuple[str, ...]) -> object:
    """The same without the values of environment variables, and of fields that are ``hidden``."""
    if isinstance(value, Mapping):
        return {key: _HIDDEN if key in hidden else _field(key, inner, hidden) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_secrets(inner, hidden) for inner in value]
    return value


def _field(key: str, value: object, hidden: tuple[str, ...]) -> object:
    if key != "env" or not isinstance(value, list | tuple):
        return _without_secrets(value, hidden)
    return [{**item, "value": _HIDDEN} if isinstance(item, Mapping) and "value" in item else item for item in value]
