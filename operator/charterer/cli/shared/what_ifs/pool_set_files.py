"""GPUPoolSets in files: the GPUPools that each declares, as if these had been written there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import click

from charterer.api.models.gpupoolset import GPUPoolSetSpec
from charterer.api.names import API_VERSION
from charterer.cli.shared.what_ifs.manifest_files import ManifestSource
from charterer.cluster.store import ObjectKey
from charterer.domain.pool import Pool


def pools_of_set(source: ManifestSource, name: str) -> Iterator[ManifestSource]:
    """The GPUPools of a set that can be decoded, each as an object of the same file."""
    spec = GPUPoolSetSpec.model_validate(source.field("spec"))
    for pool, manifest in spec.manifests(name).items():
        raw: Mapping[str, Any] = {
            "apiVersion": API_VERSION,
            "kind": "GPUPool",
            "metadata": {"name": pool, "labels": dict(manifest.labels)},
            "spec": manifest.spec,
        }
        yield ManifestSource(source.at, raw)


def without_removed(pools: Mapping[ObjectKey, Pool], set_uid: str, declared: set[str]) -> dict[ObjectKey, Pool]:
    """The pools, those of the set that it declares no more being deleted. ``set_uid``: empty for a new set."""
    return {
        key: replace(pool, deleting=True) if set_uid and pool.set_uid == set_uid and pool.id not in declared else pool
        for key, pool in pools.items()
    }


def check_known(source: ManifestSource, pool: Pool, pools: Mapping[ObjectKey, Pool]) -> None:
    """ClickException for a pool of a set of which nobody knows what a node is: a set has no place to say it."""
    alike = pools.get(ObjectKey("", pool.id)) or next(
        (each for each in pools.values() if each.cloud == pool.cloud), None
    )
    if alike is None or alike.offering is None:
        raise click.ClickException(
            f"{source.at}: no cloud has been asked about GPUPool {pool.id} of this set yet, so a what-if has to be "
            "told: write it into the file as a GPUPool, with status.offering and spec.price"
        )
