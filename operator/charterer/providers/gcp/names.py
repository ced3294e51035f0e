"""What instances are named and labelled: the name carries the order, the labels cluster and pool.

Labels of Google Cloud have lower-case letters, digits, hyphens and underscores, at most 63; names of instances at most
63 by RFC 1035 (https://cloud.google.com/compute/docs/naming-resources, .../docs/labeling-resources).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from charterer.domain.ids import OrderToken, PoolId

CLUSTER_LABEL: Final = "charterer-cluster"
"""The uid of the namespace kube-system."""
POOL_LABEL: Final = "charterer-pool"

_PREFIX: Final = "charterer-"
_NAME: Final = re.compile(rf"{_PREFIX}(c[-a-z0-9]{{1,51}})")
_SPACE: Final = uuid.UUID("6f1d3c0e-2f0f-5b0c-9a52-6f2d2c6d7a10")
"""The name space of request ids: any other would do, if it never changes."""


def labels_of(cluster: str, pool: PoolId) -> Mapping[str, str]:
    """The labels that each instance of a pool carries."""
    return {CLUSTER_LABEL: cluster, POOL_LABEL: label_value(pool)}


def label_value(pool: PoolId) -> str:
    """A pool's name as a label: dots become underscores, which no name of a Kubernetes object has."""
    text = pool.replace(".", "_")
    return text if len(text) <= 63 else f"{text[:30]}_{uuid.uuid5(_SPACE, pool).hex}"


def instance_name(order: OrderToken) -> str:
    """The name of the instance that serves an order; also that of its Node."""
    return f"{_PREFIX}{order}"


def order_of(name: str) -> OrderToken | None:
    """The order that an instance of this name serves; None for a name that is none of ours."""
    found = _NAME.fullmatch(name)
    return None if found is None else OrderToken(found[1])


def request_id(orders: Iterable[OrderToken], *about: str) -> str:
    """The id of a request for these orders, with which Google Cloud recognises the same request again.

    ``about``: what else makes it another request.
    """
    return str(uuid.uuid5(_SPACE, " ".join([*sorted(orders), *about])))


def request_name(orders: Sequence[OrderToken], *about: str) -> str:
    """The name of the resize request for these orders. ``about``: as of the request id."""
    return f"{_PREFIX}r{uuid.UUID(request_id(orders, *about)).hex}"


def last(link: str) -> str:
    """The name at the end of a link."""
    return link.rsplit("/", 1)[-1]
