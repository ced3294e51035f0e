"""Pages and filters, as all lists of EC2 have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from tests.clouds.aws.protocol import Fault, Params

T = TypeVar("T")


def page(params: Params, rows: Sequence[T], size: int, key: str = "MaxResults") -> tuple[list[T], dict[str, str]]:
    """The rows of this page, and the field that names the next one."""
    size = min(size, params.get(key, size))
    begin = int(params.get("NextToken", "0"))
    more = {"NextToken": str(begin + size)} if begin + size < len(rows) else {}
    return list(rows[begin : begin + size]), more


def filtered(params: Params, rows: Sequence[T], values: Callable[[T, str], Sequence[Any]]) -> list[T]:
    """The rows that match every filter; ``values`` has a row's values of a filter, KeyError if it is unknown."""
    left = list(rows)
    for each in params.get("Filters", []):
        name, wanted = each["Name"], each["Values"]
        if len(wanted) > 200:
            raise Fault("FilterLimitExceeded", "The maximum number of filter values specified on a single call is 200")
        try:
            left = [row for row in left if any(fnmatchcase(str(v), want) for v in values(row, name) for want in wanted)]
        except KeyError as error:
            raise Fault("InvalidParameterValue", f"The filter '{name}' is invalid") from error
    return left
