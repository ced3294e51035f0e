"""What a bed's programs did meanwhile: the requests that the API server answered, and the seconds of a processor."""

from __future__ import annotations

import re
from collections import Counter

import psutil

from tests.testbed.bed import Bed
from tests.testbed.operators import OperatorProcess

_REQUEST = re.compile(r"apiserver_request_total\{([^}]*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Load:
    """Counts of a bed and its operator since it was made."""

    def __init__(self, bed: Bed, operator: OperatorProcess) -> None:
        self._plane = bed.plane
        self._operator = operator
        self._before = self._requests(), self._seconds()

    def seconds(self) -> Counter[str]:
        """Seconds of a processor by program."""
        return _since(self._seconds(), self._before[1])

    def requests(self) -> Counter[str]:
        """Requests that the API server answered by verb, resource and dry run."""
        return _since(self._requests(), self._before[0])

    def _seconds(self) -> Counter[str]:
        pids = {**self._plane.supervisor.pids, "operator": self._operator.pid}
        return Counter({name: sum(psutil.Process(pid).cpu_times()[:2]) for name, pid in pids.items()})

    def _requests(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for labels, number in _REQUEST.findall(self._plane.kubectl("get", "--raw", "/metrics")):
            of = dict(_LABEL.findall(labels))
            what = "/".join(part for part in (of["resource"], of["subresource"]) if part)
            dry = " (dry run)" if of["dry_run"] else ""
            found[f"{of['verb']} {what}{dry} {of['code']}"] += round(float(number))
        return found


def _since(now: Counter[str], before: Counter[str]) -> Counter[str]:
    return Counter({what: number - before[what] for what, number in now.items() if number > before[what]})
