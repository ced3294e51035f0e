"""Preflight: what would fail, or cost money by surprise, is found before the first dollar is spent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from charterer.clouds.gcp import GcpGroup, GcpTemplate
from charterer.domain.pool import Pool
from charterer.providers.errors import ProviderError
from charterer.providers.gcp.calls import Calls
from charterer.providers.gcp.hardware import GceHardware
from charterer.providers.gcp.launch.bulk import FIELD
from charterer.providers.gcp.launch.group import Groups, problems_of_group
from charterer.providers.gcp.listing import instances_of
from charterer.providers.gcp.names import label_value
from charterer.providers.gcp.permissions import Call
from charterer.providers.gcp.prices import STALE_DAYS, Prices
from charterer.providers.gcp.quotas import Quotas
from charterer.providers.gcp.reservations import reservation_finding
from charterer.providers.gcp.template import InstanceTemplates, Template, problems_of
from charterer.providers.provider import Check, PreflightFinding, checked

_KEY_FILE: Final = "a key file, which works for whoever has it until somebody deletes it: use Workload Identity instead"


class Preflight:
    """Looks at everything that a pool needs, and changes nothing."""

    def __init__(
        self, calls: Calls, hardware: GceHardware, groups: Groups, templates: InstanceTemplates, prices: Prices
    ) -> None:
        self._calls = calls
        self._hardware = hardware
        self._groups = groups
        self._templates = templates
        self._prices = prices
        self._quotas = Quotas(calls)

    async def findings(self, pool: Pool, cluster: str) -> Sequence[PreflightFinding]:
        """One finding for each thing that was looked at. Without credentials there is only that one."""
        try:
            who = await self._credentials(pool)
        except ProviderError as error:
            return [PreflightFinding("credentials", False, error.said)]
        match pool.cloud:
            case GcpGroup() as group:
                return [*who, *await self._of_group(pool, group, cluster)]
            case GcpTemplate() as cloud:
                return [*who, *await self._of_template(pool, cloud, cluster)]
            case _:
                return who

    async def _credentials(self, pool: Pool) -> Sequence[PreflightFinding]:
        identity = await self._calls.identity(pool.id)
        answer = await self._calls(pool.id, Call.GET_PROJECT)
        who = f" as {identity.account}" if identity is not None and identity.account else ""
        found = PreflightFinding("credentials", True, f"project {answer.body.get('name', '')}{who}")
        if identity is not None and identity.key_file:
            return [found, PreflightFinding("identity", False, f"the credentials come from {_KEY_FILE}")]
        return [found]

    async def _of_group(self, pool: Pool, group: GcpGroup, cluster: str) -> Sequence[PreflightFinding]:
        try:
            settings = await self._groups.settings(pool, group)
        except ProviderError as error:
            return [PreflightFinding("group", False, error.said)]
        wrong = problems_of_group(pool, group, settings, cluster)
        whole = [PreflightFinding("group", False, each) for each in wrong]
        whole = whole or [PreflightFinding("group", True, f"{group.group} in {group.zone} is fit")]
        return [*whole, *await self._of_nodes(pool, group, settings.template, cluster)]

    async def _of_template(self, pool: Pool, cloud: GcpTemplate, cluster: str) -> Sequence[PreflightFinding]:
        try:
            template = await self._templates.read(pool.id, cloud.template, FIELD)
        except ProviderError as error:
            return [PreflightFinding("instance template", False, error.said)]
        wrong = problems_of(pool, template, flex=False)
        said = f"{template.name}: {'; '.join(wrong)}" if wrong else template.name
        whole = [PreflightFinding("instance template", not wrong, said)]
        if cloud.reservation:
            whole.append(await checked("reservation", lambda: reservation_finding(self._calls, pool, cloud, template)))
        return [*whole, *await self._of_nodes(pool, cloud, template, cluster)]

    async def _of_nodes(
        self, pool: Pool, cloud: GcpGroup | GcpTemplate, template: Template, cluster: str
    ) -> Sequence[PreflightFinding]:
        checks: list[tuple[str, Check]] = [
            ("GPUs", lambda: self._gpus(pool, cloud, template)),
            ("price", lambda: self._price(pool, cloud, template)),
        ]
        if not (isinstance(cloud, GcpTemplate) and cloud.reservation):
            checks.append(("quota", lambda: self._quota(pool, cloud, template, cluster)))
        return [await checked(subject, check) for subject, check in checks]

    async def _gpus(self, pool: Pool, cloud: GcpGroup | GcpTemplate, template: Template) -> PreflightFinding:
        offering = await self._hardware.offering(pool, template, cloud.zone, "", cloud.gpu_type)
        wrong = await self._hardware.told_otherwise(pool.id, template, cloud.zone)
        return PreflightFinding("GPUs", not wrong, wrong or f"{offering.gpus_per_node} × {offering.gpu_type} a node")

    async def _price(self, pool: Pool, cloud: GcpGroup | GcpTemplate, template: Template) -> PreflightFinding:
        offering = await self._hardware.offering(pool, template, cloud.zone, "", cloud.gpu_type)
        quote = self._prices.quote(pool, offering, cloud.region, flex=flex_start(cloud))
        said = f"{quote.price}, at most {quote.worst}: {quote.source}"
        now = (await self._calls(pool.id, Call.GET_PROJECT)).at
        age = self._prices.table.age_days(now)
        if age <= STALE_DAYS or pool.price_override is not None:
            return PreflightFinding("price", True, said)
        advice = "compare it with Google's, and set spec.price.hourly or take a newer Charterer"
        return PreflightFinding("price", False, f"{said}, which is {age} days old: {advice}")

    async def _quota(
        self, pool: Pool, cloud: GcpGroup | GcpTemplate, template: Template, cluster: str
    ) -> PreflightFinding:
        gpus = await self._hardware.gpus(pool.id, template, cloud.zone)
        if len(gpus) != 1:
            return PreflightFinding("quota", True, "of GPUs none is needed")
        listed, _ = await instances_of(self._calls, pool.id, cloud.zone, cluster)
        own = sum(row.alive and row.pool == label_value(pool.id) for row in listed.values())
        return await self._quotas.finding(pool, cloud.region, gpus, own, flex=flex_start(cloud))


def flex_start(cloud: GcpGroup | GcpTemplate) -> bool:
    """Whether its nodes are asked for by resize requests."""
    return isinstance(cloud, GcpGroup) and cloud.run_seconds is not None
