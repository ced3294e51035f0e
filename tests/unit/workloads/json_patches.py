"""What objects are after the writes of a kind that is adopted."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from charterer.workloads import Write

Raw = dict[str, Any]


def applied(raw: Raw, writes: Sequence[Write]) -> Raw:
    """The object after the writes, as RFC 6902 says."""
    after = deepcopy(raw)
    parent: Any
    for write in writes:
        for operation in write.operations:
            *steps, last = [key.replace("~1", "/").replace("~0", "~") for key in operation["path"].split("/")[1:]]
            parent = after
            for step in steps:
                parent = parent[int(step)] if isinstance(parent, list) else parent[step]
            if operation["op"] == "test":
                assert parent[last] == operation["value"]
            elif operation["op"] == "remove":
                del parent[last]
            else:
                parent[int(last) if isinstance(parent, list) else last] = operation["value"]
    return after
