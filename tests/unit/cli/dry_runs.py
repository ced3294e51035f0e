"""An API server as far as dry runs of the command line go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

import pytest

from charterer.cluster.client import Client
from charterer.cluster.errors import ApiError, BadRequest, Forbidden, NotFound
from charterer.tools.commands.shared.cluster import ClusterOptions
from tests.unit.api import values

_T = TypeVar("_T")

MISSPELT = BadRequest("POST", "/jobs", 400, "BadRequest", 'unknown field "spec.template.spec.contaners"')
REFUSED = 'spec.template: the Job API refuses it: unknown field "spec.template.spec.contaners"; correct the template'
MAY_NOT = Forbidden("POST", "/jobs", 403, "Forbidden", 'User "ada" cannot create resource "jobs" in API group "batch"')


class DryRuns:
    """Accepts every Job but those of the TrainingJobs in ``refuses``; ``tried`` has the names of those that came."""

    def __init__(self) -> None:
        self.refuses: dict[str, ApiError] = {}
        self.tried: list[str] = []
        self.strangers: set[str] = set()
        """Paths of objects that are there and belong to no run."""
        self.most_under_way = 0
        self._under_way = 0

    async def get(self, path: str) -> Mapping[str, Any]:
        if "/trainingjobs/" not in path and path not in self.strangers:
            raise NotFound("GET", path, 404, "NotFound", "no such object")
        raw = values.raw_job()
        raw["spec"]["template"]["spec"]["hostname"] = path.rpartition("/")[2]  # no two templates are equal
        return raw

    async def post(self, path: str, body: Mapping[str, Any], *, dry_run: bool, strict: bool) -> Mapping[str, Any]:
        assert dry_run
        assert strict
        name = body["metadata"]["ownerReferences"][0]["name"]
        self.tried.append(name)
        self._under_way += 1
        self.most_under_way = max(self.most_under_way, self._under_way)
        await asyncio.sleep(0)
        self._under_way -= 1
        if name in self.refuses:
            raise self.refuses[name]
        return body

    def serve(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the commands ask this server."""

        def read_with(cluster: ClusterOptions, reader: Callable[[Client], Awaitable[_T]]) -> _T:
            async def answer() -> _T:
                return await reader(cast(Client, self))

            return asyncio.run(answer())

        monkeypatch.setattr("charterer.tools.commands.shared.plan_report.read_with", read_with)
