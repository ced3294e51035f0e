"""The labels that say where a node is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def place_labels(zones: Sequence[str], region: str, *zone_keys: str) -> Mapping[str, tuple[str, ...]]:
    """Those that Kubernetes' cloud controllers give, with the values that a node may have.

    ``region``: empty where it is not known. ``zone_keys``: further labels that have the zone, such as those by which
    volumes ask for theirs.
    """
    of_zone = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone", *zone_keys)
    of_region = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
    return {**dict.fromkeys(of_zone, tuple(zones)), **dict.fromkeys(of_region if region else (), (region,))}
