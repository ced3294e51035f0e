"""``charterer doctor`` prints a line for each check, with a remedy for each fault."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import click

from charterer.cluster import paths
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import Forbidden
from charterer.cluster.paths import Resource
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.observe import observe
from charterer.controller.snapshot.offline import read_cluster
from charterer.domain.plan import ReasonCode
from charterer.tools.commands.doctor.checks import (
    NOTHING_OWN,
    Finding,
    JobTally,
    OwnReading,
    Right,
    check_adoption,
    check_budgets,
    check_commitments,
    check_cost_record,
    check_flavors,
    check_held,
    check_held_prices,
    check_leader,
    check_limits,
    check_namespaces,
    check_objects,
    check_own_jobs,
    check_own_profiles,
    check_pool_sets,
    check_pools,
    check_preflights,
    check_prices,
    check_queues,
    check_rights,
    check_stopped,
    skipped_checks,
)
from charterer.tools.commands.shared.adopted_objects import NO_QUEUES, Queues, labelled_objects, read_queues
from charterer.tools.commands.shared.cluster import ROLE, ClusterOptions, cluster_options, read_with, wall_clock
from charterer.tools.commands.shared.completion import namespace_names
from charterer.tools.commands.shared.leader import LeaderSeen, as_operated, find_leader
from charterer.tools.commands.shared.one_namespace import read_own_jobs
from charterer.tools.commands.shared.output import FAILED, FORMATS, JsonValue, copied, emit
from charterer.tools.documents.document import Document, Item, Items, Paragraph, Tone

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
    """The input of all checks. ``state`` is None if the account may not list all kinds. Without ``state`` only ``own``
    is checked.

    ``leader`` is None if the account may not read the Lease. ``queues`` is None if the account may not read Kueue's
    objects.
    """

    leader: LeaderSeen | None
    rights: tuple[Right, ...]
    state: ClusterState | None
    pools: tuple[RawObject, ...] = ()
    budgets: tuple[RawObject, ...] = ()
    pool_sets: tuple[RawObject, ...] = ()
    own: OwnReading = NOTHING_OWN
    queues: Queues | None = NO_QUEUES


@click.command()
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Format.")
@click.option(
    "-n",
    "--namespace",
    shell_complete=namespace_names,
    help="Whose jobs to check. Default: all, or the context's if you may not read the cluster.",
)
@cluster_options
def doctor(output: str, namespace: str | None, cluster: ClusterOptions) -> None:
    """Check that an operator leads, that pools are ready and priced, that budgets pay, and that every job goes on.

    Each line says OK, or what is wrong and what to do: those come last, first what costs most while nobody acts. It
    changes nothing.

    If you may not read the whole cluster, it checks the jobs of one namespace (-n), and names what it left out.

    \b
      charterer doctor
      charterer doctor -n research
      charterer doctor -o json | jq '.findings[] | select(.ok | not)'

    Exit code: 0 if all is well, 1 if something is wrong or the cluster cannot be read.
    """
    reading = read_with(cluster, lambda client: read_for_doctor(client, namespace))
    findings = examine(reading)
    emit(doctor_document(findings, JobTally.of(reading.own.jobs)), doctor_json(findings), output)
    if any(finding.remedy for finding in findings):
        raise click.exceptions.Exit(FAILED)


async def read_for_doctor(client: Client, namespace: str | None) -> DoctorReading:
    """Ask for the account's rights, and then read all kinds. If a right is missing, read only one namespace.

    ``namespace`` None means all namespaces, or the context's namespace if a right is missing. Raises ApiError, and
    Forbidden if the account may not even read the namespace.
    """
    rights = tuple(await asyncio.gather(*(_right(client, resource) for resource in _READ)))
    try:
        leader = await find_leader(client, wall_clock)
    except Forbidden:
        leader = None
    if not all(right.allowed for right in rights):
        return DoctorReading(leader, rights, None, own=await _read_own(client, namespace or client.access.namespace))
    own = OwnReading(await read_own_jobs(client, namespace or ""))
    state = as_operated(await read_cluster(client), leader)
    pools = (await client.list(paths.GPU_POOLS.all())).items
    budgets = (await client.list(paths.GPU_BUDGETS.all())).items
    pool_sets = (await client.list(paths.GPU_POOL_SETS.all())).items
    return DoctorReading(leader, rights, state, pools, budgets, pool_sets, own, await read_queues(client))


async def _read_own(client: Client, namespace: str) -> OwnReading:
    jobs = await read_own_jobs(client, namespace)
    try:
        profiles = (await client.list(paths.SPEEDUP_PROFILES.all(namespace))).items
    except Forbidden:
        profiles = ()
    return OwnReading(jobs, profiles, await labelled_objects(client, namespace))


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
    """Run all checks for which the reading has data."""
    own, state = reading.own, reading.state
    if state is None:
        recorded = {
            str(job.job.target.uid) for job in own.jobs.jobs if job.job is not None and job.job.target is not None
        }
        return (
            skipped_checks(reading.rights, ROLE),
            *check_own_jobs(own.jobs),
            *check_held(own.targets, recorded, own.jobs.now),
            *check_own_profiles(own.profiles),
        )
    jobs = [job for job in own.jobs.jobs if job.view.why != ReasonCode.NO_BUDGET]  # check_namespaces reports the others
    return (
        check_leader(reading.leader),
        check_rights(reading.rights),
        *check_stopped(state.stop),
        *check_limits(state.limits),
        *check_pools({pool.id: pool for pool in state.pools.values()}, reading.pools),
        *check_pool_sets(reading.pool_sets),
        *(check_prices(reading.budgets) if reading.pools else ()),
        *check_held_prices(reading.pools),
        *check_cost_record(reading.budgets),
        *check_commitments(reading.pools, reading.budgets),
        *check_preflights(reading.pools),
        *check_budgets(state, reading.budgets),
        *check_namespaces(state),
        *check_objects(state),
        *check_own_jobs(replace(own.jobs, jobs=jobs)),
        *check_adoption(observe(state, wall_clock()), reading.leader),
        *check_queues(reading.queues, reading.leader),
        *check_flavors(reading.queues, state.pools.values()),
    )


def doctor_document(findings: Sequence[Finding], jobs: JobTally) -> Document:
    """Make a line for each finding and a summary sentence.

    Faults come last, ordered by hourly loss, the largest first.
    """
    wrong = sorted((finding for finding in findings if finding.remedy), key=_lost, reverse=True)
    items = Items(tuple(map(_item, (*(finding for finding in findings if not finding.remedy), *wrong))))
    if wrong:
        words = f"{len(wrong)} of {len(findings)} checks found something wrong."
    else:
        skipped = any(finding.skipped for finding in findings)
        words = f"{'All that was looked at' if skipped else 'All'} is well{jobs}."
    return Document("charterer doctor", (items, Paragraph(words, Tone.BAD if wrong else Tone.GOOD)))


def _lost(finding: Finding) -> int:
    return 0 if finding.lost is None else finding.lost.micros_per_hour


def _item(finding: Finding) -> Item:
    sentence = f"{finding.check}: {finding.subject} {finding.text}"
    if finding.skipped:
        return Item("--", sentence, Tone.FAINT)
    if not finding.remedy:
        return Item("OK", sentence)
    paid = "" if finding.lost is None else f" ({finding.lost} meanwhile)"
    return Item("!!", f"{sentence}{paid}. To do: {finding.remedy}", Tone.BAD)


def doctor_json(findings: Sequence[Finding]) -> JsonValue:
    """Return all findings as JSON."""
    return {
        "ok": not any(finding.remedy for finding in findings),
        "findings": [
            {
                "ok": not finding.remedy,
                **copied(finding, "skipped check subject message=text"),
                "remedy": finding.remedy or None,
                **copied(finding, "lostHourly=lost"),
            }
            for finding in findings
        ],
    }
