"""``charterer doctor``: every check in one line, and what to do about what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import click

from charterer.cli.doctor.adoption import check_adoption
from charterer.cli.doctor.checks import (
    Right,
    check_budgets,
    check_commitments,
    check_cost_record,
    check_held_prices,
    check_leader,
    check_limits,
    check_namespaces,
    check_objects,
    check_pool_sets,
    check_pools,
    check_preflights,
    check_prices,
    check_rights,
    check_stopped,
    skipped_checks,
)
from charterer.cli.doctor.finding import Finding
from charterer.cli.doctor.own_checks import OwnReading, check_own_jobs, check_own_profiles
from charterer.cli.doctor.queue_checks import check_queues
from charterer.cli.shared.adopted_objects import NO_QUEUES, Queues, read_queues
from charterer.cli.shared.cluster import ROLE, ClusterOptions, cluster_options, read_with, wall_clock
from charterer.cli.shared.leader import LeaderSeen, as_operated, find_leader
from charterer.cli.shared.output import FAILED, FORMATS, JsonValue, emit
from charterer.cli.shared.own_jobs import read_own_jobs
from charterer.cluster import paths
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import Forbidden
from charterer.cluster.paths import Resource
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.observe import observe
from charterer.controller.snapshot.offline import read_cluster
from charterer.report.document import Document, Item, Items, Paragraph, Tone

_READ = (
    paths.TRAINING_JOBS,
    paths.SPEEDUP_PROFILES,
    paths.GPU_BUDGETS,
    paths.GPU_POOLS,
    paths.GPU_POOL_SETS,
    paths.GPU_RENTALS,
    paths.JOBS,
    paths.PODS,
    paths.SERVICES,
    paths.NODES,
    paths.NAMESPACES,
)


@dataclass(frozen=True, slots=True)
class DoctorReading:
    """The input of all checks. ``state`` is None where the caller may not list everything; then only the namespace
    ``own`` is checked. ``leader`` is None where its Lease may not be read, ``queues`` where Kueue's may not."""

    leader: LeaderSeen | None
    rights: tuple[Right, ...]
    state: ClusterState | None
    pools: tuple[RawObject, ...] = ()
    budgets: tuple[RawObject, ...] = ()
    pool_sets: tuple[RawObject, ...] = ()
    own: OwnReading | None = None
    queues: Queues | None = NO_QUEUES


@click.command()
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Format.")
@click.option("-n", "--namespace", help="The one to check if you may not read the cluster. Default: the context's.")
@cluster_options
def doctor(output: str, namespace: str | None, cluster: ClusterOptions) -> None:
    """Check that an operator leads, that pools are ready and priced, and that budgets pay for every job.

    Each line says OK, or what is wrong and what to do. It changes nothing.

    If you may not read the whole cluster, it checks the jobs of one namespace (-n), and names what it left out.

    \b
      charterer doctor
      charterer doctor -n research
      charterer doctor -o json | jq '.findings[] | select(.ok | not)'

    Exit code: 0 if all is well, 1 if something is wrong or the cluster cannot be read.
    """
    findings = examine(read_with(cluster, lambda client: read_for_doctor(client, namespace)))
    emit(doctor_document(findings), doctor_json(findings), output)
    if any(finding.remedy for finding in findings):
        raise click.exceptions.Exit(FAILED)


async def read_for_doctor(client: Client, namespace: str | None) -> DoctorReading:
    """Ask for rights first, and read what they allow, at least of the namespace (None: the context's).

    Raises ApiError; Forbidden where not even that is allowed.
    """
    rights = tuple(await asyncio.gather(*(_right(client, resource) for resource in _READ)))
    try:
        leader = await find_leader(client, wall_clock)
    except Forbidden:
        leader = None
    if not all(right.allowed for right in rights):
        return DoctorReading(leader, rights, None, own=await _read_own(client, namespace or client.access.namespace))
    state = as_operated(await read_cluster(client), leader)
    pools = (await client.list(paths.GPU_POOLS.all())).items
    budgets = (await client.list(paths.GPU_BUDGETS.all())).items
    pool_sets = (await client.list(paths.GPU_POOL_SETS.all())).items
    return DoctorReading(leader, rights, state, pools, budgets, pool_sets, queues=await read_queues(client))


async def _read_own(client: Client, namespace: str) -> OwnReading:
    jobs = await read_own_jobs(client, namespace)
    try:
        profiles = (await client.list(paths.SPEEDUP_PROFILES.all(namespace))).items
    except Forbidden:
        profiles = ()
    return OwnReading(jobs, profiles)


async def _right(client: Client, resource: Resource) -> Right:
    asked = {"verb": "list", "group": resource.group, "resource": resource.plural}
    answer = await client.post(
        paths.SELF_SUBJECT_ACCESS_REVIEWS.all(),
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        },
    )
    return Right(str(resource), bool(answer["status"].get("allowed")))


def examine(reading: DoctorReading) -> tuple[Finding, ...]:
    """All checks that what was read allows."""
    own = reading.own
    if own is not None:
        return (
            skipped_checks(reading.rights, ROLE),
            *check_own_jobs(own.jobs),
            *check_own_profiles(own.profiles),
        )
    findings = [check_leader(reading.leader), check_rights(reading.rights)]
    state = reading.state
    if state is not None:
        findings += check_stopped(state.stop)
        findings += check_limits(state.limits)
        findings += check_pools({pool.id: pool for pool in state.pools.values()}, reading.pools)
        findings += check_pool_sets(reading.pool_sets)
        if reading.pools:
            findings += check_prices(reading.budgets)
        findings += check_held_prices(reading.pools)
        findings += check_cost_record(reading.budgets)
        findings += check_commitments(reading.pools, reading.budgets)
        findings += check_preflights(reading.pools)
        findings += check_budgets(state, reading.budgets)
        findings += check_namespaces(state)
        findings += check_objects(state)
        findings += check_adoption(observe(state, wall_clock()), reading.leader)
        findings += check_queues(reading.queues, reading.leader)
    return tuple(findings)


def doctor_document(findings: Sequence[Finding]) -> Document:
    """A line for each finding, and a sentence."""
    wrong = sum(bool(finding.remedy) for finding in findings)
    items = Items(tuple(_item(finding) for finding in findings))
    skipped = any(finding.skipped for finding in findings)
    well = "All that was looked at is well." if skipped else "All is well."
    words = f"{wrong} of {len(findings)} checks found something wrong." if wrong else well
    return Document("charterer doctor", (items, Paragraph(words, Tone.BAD if wrong else Tone.GOOD)))


def _item(finding: Finding) -> Item:
    sentence = f"{finding.check}: {finding.subject} {finding.text}"
    if finding.skipped:
        return Item("--", sentence, Tone.FAINT)
    if not finding.remedy:
        return Item("OK", sentence)
    return Item("!!", f"{sentence}. To do: {finding.remedy}", Tone.BAD)


def doctor_json(findings: Sequence[Finding]) -> JsonValue:
    """The same for programs."""
    return {
        "ok": not any(finding.remedy for finding in findings),
        "findings": [
            {
                "ok": not finding.remedy,
                "skipped": finding.skipped,
                "check": finding.check,
                "subject": finding.subject,
                "message": finding.text,
                "remedy": finding.remedy or None,
            }
            for finding in findings
        ],
    }
