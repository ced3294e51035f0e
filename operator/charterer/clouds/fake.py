"""An instance group of the fake cloud."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from charterer.domain.order import LaunchWay
from charterer.domain.pool import CapacityType, Cloud, Offering
from charterer.gpu_types import whole_type


@dataclass(frozen=True, slots=True)
class FakeGroup(Cloud):
    """An instance group of the fake cloud: the base URL of its API and the group's name."""

    endpoint: str
    group: str

    @property
    def vendor(self) -> str:
        """The fake cloud."""
        return "fake"

    @property
    def account(self) -> str:
        """The endpoint in a canonical form: in lower case, without a default port, and without a slash at its end."""
        try:
            url = urlsplit(self.endpoint)
            port = url.port or {"http": 80, "https": 443}.get(url.scheme)
        except ValueError:
            return self.endpoint.rstrip("/")
        return f"{url.scheme}://{(url.hostname or '').rstrip('.')}:{port}{url.path.rstrip('/')}"

    @property
    def identity(self) -> Hashable:
        """The group within its account."""
        return self.vendor, self.account, self.group

    def ways(self, offering: Offering, sold: CapacityType) -> Sequence[LaunchWay]:
        """One way, for the group's GPU type. Each group has its own stock, and each GPU type has one quota."""
        return (of_gpu_type(whole_type(offering.gpu_type)),)


def of_gpu_type(gpu_type: str) -> LaunchWay:
    """The way to launch a machine of the fake cloud."""
    return LaunchWay(family=gpu_type)
