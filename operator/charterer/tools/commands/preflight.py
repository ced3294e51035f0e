"""``charterer preflight`` checks what would fail in a pool once nodes are rented."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from functools import partial

import click

from charterer.app.leader import ClusterObjects
from charterer.cluster.client import Client
from charterer.controller.preflights import findings_of, node_findings
from charterer.controller.snapshot.offline import read_cluster, snapshot_of
from charterer.domain.pool import Pool
from charterer.domain.snapshot import Snapshot
from charterer.providers.accounts import Accounts, adapter_for
from charterer.providers.provider import PreflightFinding
from charterer.sentences import similar_names
from charterer.tools.commands.shared.cluster import ClusterOptions, cluster_options, read_with, wall_clock
from charterer.tools.commands.shared.completion import pool_names
from charterer.tools.commands.shared.output import FAILED, FORMATS, JsonValue, emit
from charterer.tools.documents.document import Document, Item, Items, Paragraph, Tone

Found = Mapping[str, Sequence[PreflightFinding]]
"""Findings by name of the pool."""


@click.command()
@click.argument("pool", required=False, shell_complete=pool_names)
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Format.")
@cluster_options
def preflight(pool: str | None, output: str, cluster: ClusterOptions) -> None:
    """Check POOL, or all pools, for what would fail once nodes are rented: rights, settings, quota, price, Nodes.

    It rents and changes nothing.

    \b
      charterer preflight                # all pools
      charterer preflight a100           # one
      kubectl -n charterer-system exec deploy/charterer -- charterer preflight a100

    It asks the cloud with the credentials of the place where it runs. The last line asks with the operator's own, as
    the operator itself does every hour: the condition Preflight of each GPUPool says what it found.

    Exit code: 0 if all is well, 1 if something would fail or the cluster cannot be read.
    """
    found = read_with(cluster, partial(look, pool=pool))
    emit(preflight_document(found), preflight_json(found), output)
    if any(not finding.well for findings in found.values() for finding in findings):
        raise click.exceptions.Exit(FAILED)


async def look(client: Client, pool: str | None) -> Found:
    """Check one pool, or all if ``pool`` is None. Raises ApiError, and ClickException if the pool does not exist."""
    snapshot = snapshot_of(await read_cluster(client), wall_clock())
    pools = {name: each for name, each in snapshot.pools.items() if not each.gone}
    chosen = [each for name, each in pools.items() if pool in (None, name)]
    if not chosen:
        if pool is None:
            raise click.ClickException("there is no GPUPool: apply one (docs/clouds/README.md)")
        raise click.ClickException(f"no GPUPool {pool!r}: {similar_names(pool, pools)}")
    accounts = Accounts(os.environ, adapter=partial(adapter_for, objects=ClusterObjects(client)))
    return await look_at(chosen, accounts, snapshot)


async def look_at(pools: Sequence[Pool], accounts: Accounts, snapshot: Snapshot) -> Found:
    """Check these pools and their Nodes in the snapshot. Closes the accounts."""
    try:
        found = await asyncio.gather(*(findings_of(accounts, pool) for pool in pools))
    finally:
        await accounts.close()
    nodes = node_findings(snapshot)
    return {pool.id: (*findings, *nodes.get(pool.id, ())) for pool, findings in zip(pools, found, strict=True)}


def preflight_document(found: Found) -> Document:
    """Make a line for each finding, and a summary sentence."""
    every = [(name, finding) for name, findings in sorted(found.items()) for finding in findings]
    failed = sum(not finding.well for _, finding in every)
    words = f"{failed} of {len(every)} checks found something wrong." if failed else "All is well."
    items = Items(tuple(_item(name, finding) for name, finding in every))
    return Document("charterer preflight", (items, Paragraph(words, Tone.BAD if failed else Tone.GOOD)))


def _item(pool: str, finding: PreflightFinding) -> Item:
    sentence = f"GPUPool {pool}: {finding.subject}: {finding.message}"
    return Item("OK", sentence) if finding.well else Item("!!", sentence, Tone.BAD)


def preflight_json(found: Found) -> JsonValue:
    """Return the findings as JSON."""
    return {
        "pools": [
            {
                "pool": name,
                "ok": all(finding.well for finding in findings),
                "findings": [
                    {"subject": finding.subject, "ok": finding.well, "message": finding.message} for finding in findings
                ],
            }
            for name, findings in sorted(found.items())
        ]
    }
