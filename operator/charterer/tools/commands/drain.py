"""``charterer drain`` ends all rented machines before an uninstall.

``stop`` and ``resume`` stop and restart renting.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Sequence
from pathlib import Path

import click
import yaml

from charterer.api.metadata import conditions, controller_of
from charterer.api.models.base import ConditionStatus
from charterer.api.names import ANNOTATION_STOP, KUEUE_CHECK, ConditionType
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import Forbidden, NotFound
from charterer.cluster.paths import GPU_BUDGETS, GPU_POOL_SETS, GPU_POOLS, GPU_RENTALS, NAMESPACES
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Stop
from charterer.sentences import count, is_or_are, names
from charterer.tools.commands.shared.adopted_objects import FoundObject, adopted_objects, how_to_start, read_queues
from charterer.tools.commands.shared.cluster import ClusterOptions, call, cluster_options, wall_clock
from charterer.tools.commands.shared.completion import namespace_names
from charterer.tools.commands.shared.leader import find_leader, leader_if_known, operator_namespace

# ``charterer stop`` and ``charterer resume`` set or remove an annotation on the operator's Namespace.


_NAMESPACE = click.option(
    "-n",
    "--namespace",
    default="",
    shell_complete=namespace_names,
    help="The operator's namespace. Default: the one of its Lease.",
)


@click.command()
@click.option("--drain", is_flag=True, help="Also end everything that is rented, with the jobs' grace periods.")
@click.option("--yes", is_flag=True, help="With --drain: do not ask.")
@_NAMESPACE
@cluster_options
def stop(drain: bool, yes: bool, namespace: str, cluster: ClusterOptions) -> None:
    """Rent nothing more, from now on and until `charterer resume`; what runs goes on.

    \b
      charterer stop               # rents no more
      charterer stop --drain       # and ends all machines; jobs write a checkpoint and wait
      charterer resume

    It sets an annotation on the operator's Namespace, which needs the right to patch that one object (the chart's Role
    charterer-stop). It holds for an operator that starts later, too. Without this program:
    `kubectl annotate namespace charterer-system charterer.dev/stop=drain`.
    """
    if drain and not yes:
        click.confirm("Stop all jobs and end all rented machines?", abort=True)
    name = call(cluster, lambda client: annotate(client, namespace, Stop.DRAIN if drain else Stop.RENT))
    ended = "all machines are ended" if drain else "what runs goes on, and costs what it costs"
    click.echo(f"Renting is stopped ({name}): {ended}. `charterer resume` rents again")


@click.command()
@_NAMESPACE
@cluster_options
def resume(namespace: str, cluster: ClusterOptions) -> None:
    """Rent again after `charterer stop`. Machines that are being ended are not kept."""
    name = call(cluster, lambda client: annotate(client, namespace, None))
    click.echo(f"Renting is no longer stopped ({name}): nodes are rented as budgets allow")


async def annotate(client: Client, namespace: str, stop: Stop | None) -> str:
    """Set or remove the annotation, and return the namespace's name.

    Raises ClickException if the namespace does not exist.
    """
    name = namespace or await _found(client)
    body = {"metadata": {"annotations": {ANNOTATION_STOP: stop}}}
    try:
        await client.merge_patch(NAMESPACES.one(name), body)
    except NotFound as error:
        raise click.ClickException(f"there is no Namespace {name}: name the operator's with --namespace") from error
    except Forbidden as error:
        message = f"you may not patch Namespace {name}: bind Role charterer-stop of that namespace to yourself"
        raise click.ClickException(message) from error
    return name


async def _found(client: Client) -> str:
    try:
        name = await operator_namespace(client)
    except Forbidden as error:
        message = "you may not read the operator's Lease: name its namespace with --namespace"
        raise click.ClickException(message) from error
    if not name:
        raise click.ClickException("no operator has ever run here: name its namespace with --namespace")
    return name


_NAMED = 5
"""Maximum number of rentals that one sentence names."""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl stores the last applied manifest."""
_LOOK_SECONDS = 2.0
"""Seconds between two polls of the remaining rentals and pools."""
_REFUSED_SECONDS = 60.0
"""Seconds for which the record of costs may refuse rows while nothing else is left to wait for.

A bucket may be unreachable for a moment, but a folder that does not exist does not appear by itself.
"""
_RECORD_REMEDY = (
    "correct that and run `charterer drain` again, or take costRecord.place out of the chart's values, and what is not "
    "on record is in the budget's ledger only"
)


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if machines are rented.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("gpupools.yaml"),
    show_default=True,
    help="File for the deleted GPUPools and GPUPoolSets, to apply them again later. If it exists, it gets a number.",
)
@click.option("--wait", type=click.IntRange(min=0), default=1800, show_default=True, help="Seconds to wait.")
@cluster_options
def drain(check: bool, yes: bool, save: Path, wait: int, cluster: ClusterOptions) -> None:
    """End all rented machines: delete every GPUPool, and wait until the operator has ended what was rented. GPUPoolSets
    are deleted first, because they would make their pools anew.

    Jobs are stopped with their grace period, so that they write a checkpoint, and wait. Adopted objects of teams are
    given back as their authors wrote them. Budgets, the ledger and the jobs themselves stay. `kubectl apply -f
    gpupools.yaml` undoes it: the pools return and jobs go on.

    \b
      charterer drain --check      # is anything rented?
      charterer drain              # asks, then drains; you need to be allowed to delete GPUPools (charterer-admin)

    It refuses to begin while no operator leads, because nobody would end the machines. It ends early if all machines
    have ended and the record of costs refuses their costs.

    Exit code: 0 if nothing is rented any more, 1 otherwise.
    """
    if check:
        call(cluster, check_nothing_rented)
        return
    pools = call(cluster, pools_to_delete)
    adopted = call(cluster, adopted_objects)
    if (pools or adopted) and not yes:
        parts = [f"Delete {_names(pools)}, stop their jobs and end their machines"] if pools else []
        parts += [f"Give {count(len(adopted), 'adopted object')} back to their own controllers"] if adopted else []
        click.confirm(f"{'? '.join(parts)}?", abort=True)
    saved = _save(pools, save) if pools else save
    if adopted:
        name = call(cluster, lambda client: annotate(client, "", Stop.DRAIN))
        click.echo(f"Namespace {name} is annotated, so that nothing is adopted any more; `charterer resume` undoes it")
    call(cluster, lambda client: delete_and_wait(client, pools, wait))
    for line in call(cluster, lambda client: how_to_start(client, adopted)):
        click.echo(line)
    again = f"; kubectl apply -f {saved} brings the pools back" if pools else ""
    click.echo(f"nothing is rented any more{again}")
    queues = call(cluster, read_queues)
    if queues is not None and queues.queues:
        click.echo(
            f"before you uninstall: take AdmissionCheck {KUEUE_CHECK} out of spec.admissionChecksStrategy of "
            f"{names(queues.names, _NAMED)} (ClusterQueue), or their jobs wait for ever"
        )


async def check_nothing_rented(client: Client) -> None:
    """Raise ClickException with the names of rentals and adopted objects, if there are any."""
    rentals, adopted = (await client.list(GPU_RENTALS.all())).items, await adopted_objects(client)
    if adopted and not rentals:
        raise click.ClickException(f"{_still_held(adopted)}: without the operator nobody starts them")
    if rentals:
        refused = await _refused_by_record(client, rentals)
        remedy = "Correct that" if refused else "Run `charterer drain` first"
        raise click.ClickException(f"{_named(rentals, refused)}: without the operator {_left_alone(rentals)}. {remedy}")
    click.echo("nothing is rented")


async def pools_to_delete(client: Client) -> tuple[RawObject, ...]:
    """Return all GPUPoolSets, then all GPUPools.

    Raises ClickException if no operator leads that could end their machines.
    """
    with contextlib.suppress(Forbidden):
        trouble = (await find_leader(client, wall_clock)).trouble
        if trouble:
            raise click.ClickException(f"{trouble}. Start the operator first: only it can end machines")
    return await _left(client)


async def _left(client: Client) -> tuple[RawObject, ...]:
    """Return all GPUPoolSets and GPUPools. There are no sets if their CRD is not installed."""
    sets: tuple[RawObject, ...] = ()
    with contextlib.suppress(NotFound):
        sets = (await client.list(GPU_POOL_SETS.all())).items
    return (*sets, *(await client.list(GPU_POOLS.all())).items)


async def delete_and_wait(client: Client, pools: Sequence[RawObject], seconds: float) -> None:
    """Delete exactly these sets and pools, and wait until all rentals have ended.

    Raises ClickException after ``seconds``.
    """
    for pool in pools:
        resource = GPU_POOL_SETS if pool["kind"] == "GPUPoolSet" else GPU_POOLS
        with contextlib.suppress(NotFound):
            await client.delete(resource.one(pool["metadata"]["name"]), uid=pool["metadata"]["uid"])
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    deleted = {pool["metadata"]["uid"] for pool in pools}
    said = ""
    refused_since: float | None = None
    while True:
        rentals = (await client.list(GPU_RENTALS.all())).items
        left = await _left(client)
        going = [pool for pool in left if pool["metadata"]["uid"] in deleted or _set_of(pool) in deleted]
        held = await adopted_objects(client)
        if not rentals and not going and not held:
            break
        refused = await _refused_by_record(client, rentals)
        now = _still_held(held) if held else _named(rentals, refused) if rentals else f"being deleted: {_names(going)}"
        if (await leader_if_known(client, wall_clock)).trouble:
            now += "; no operator leads, so nobody ends them: start it"
        if loop.time() >= deadline:
            raise click.ClickException(f"after {seconds:g} s {now}: see kubectl describe gpurentals,gpupools")
        if refused and not held:
            refused_since = loop.time() if refused_since is None else refused_since
            if loop.time() >= refused_since + _REFUSED_SECONDS:
                raise click.ClickException(f"{now}. No machine costs anything any more: {_RECORD_REMEDY}")
        else:
            refused_since = None
        if now != said:
            click.echo(now, err=True)
            said = now
        await asyncio.sleep(_LOOK_SECONDS)
    if left:
        raise click.ClickException(
            f"{_names(left)} were created meanwhile, and nodes are rented again: stop what creates them"
        )


def _still_held(objects: Sequence[FoundObject]) -> str:
    named = names([str(each) for each in objects], _NAMED)
    return f"{count(len(objects), 'object')} {is_or_are(len(objects))} adopted or held ({named})"


def _save(pools: Sequence[RawObject], file: Path) -> Path:
    """Write manifests of the sets, and of the pools that no set controls. Return the file's path.

    If the file exists, it may be the only copy of other pools. The function then adds the next free number to the name.
    Raises ClickException if the write fails. Nothing has been deleted by then.
    """
    plain = [
        {
            "apiVersion": pool["apiVersion"],
            "kind": pool["kind"],
            "metadata": _kept(pool["metadata"]),
            "spec": pool["spec"],
        }
        for pool in pools
        if not _set_of(pool)
    ]
    for number in itertools.count(1):
        free = file if number == 1 else file.with_name(f"{file.stem}-{number}{file.suffix}")
        try:
            with free.open("x") as out:
                yaml.safe_dump_all(plain, out, sort_keys=False)
        except FileExistsError:
            continue
        except OSError as error:
            why = f"{free} cannot be written: {error.strerror or error}"
            raise click.ClickException(f"{why}. Nothing was deleted: name another file with --save") from error
        return free
    raise AssertionError("there is always another number")


def _kept(metadata: RawObject) -> RawObject:
    """Return the metadata without additions by the API server and kubectl."""
    annotations = {name: text for name, text in (metadata.get("annotations") or {}).items() if name != _LAST_APPLIED}
    written = {"name": metadata["name"], "labels": metadata.get("labels"), "annotations": annotations}
    return {key: value for key, value in written.items() if value}


def _set_of(pool: RawObject) -> str:
    """Return the uid of the GPUPoolSet that controls the pool, or an empty text if none does."""
    owner = controller_of(pool)
    return owner.uid if owner is not None and owner.kind == "GPUPoolSet" else ""


def _names(objects: Sequence[RawObject]) -> str:
    """Format as ``GPUPoolSets x, GPUPools a, b``."""
    kinds = {item["kind"]: None for item in objects}
    of_kind = {kind: [item["metadata"]["name"] for item in objects if item["kind"] == kind] for kind in kinds}
    return ", ".join(f"{kind}s {', '.join(names)}" for kind, names in of_kind.items())


def _rented(rentals: Sequence[RawObject]) -> Sequence[str]:
    """Return name and phase of each rental that has not ended."""
    phases = {item["metadata"]["name"]: (item.get("status") or {}).get("phase", "Requested") for item in rentals}
    return [f"{name} {phase}" for name, phase in phases.items() if phase != RentalPhase.ENDED]


def _left_alone(rentals: Sequence[RawObject]) -> str:
    return "they are not ended and keep billing" if _rented(rentals) else "their cost is not counted"


async def _refused_by_record(client: Client, rentals: Sequence[RawObject]) -> str:
    """Return why the cost of these rentals is not put on record, in the words of a GPUBudget's condition.

    The text is empty in three cases: a machine is still rented, nothing refuses the rows, or budgets may not be read.
    """
    if not rentals or _rented(rentals):
        return ""
    with contextlib.suppress(Forbidden):
        for budget in (await client.list(GPU_BUDGETS.all())).items:
            for found in conditions(budget.get("status") or {}):
                if found.type == ConditionType.COSTS_RECORDED and found.status is ConditionStatus.FALSE:
                    return found.message
    return ""


def _named(rentals: Sequence[RawObject], refused: str = "") -> str:
    """Return ``2 machines are rented (a100-1 Ready, a100-2 Draining)``, or a text that the ledger does not count ended
    machines yet.

    ``refused``: why the record of costs accepts no rows, or an empty text if it accepts them.
    """
    rented = _rented(rentals)
    if not rented:
        ended = "machine has ended and is" if len(rentals) == 1 else "machines have ended and are"
        these = names((item["metadata"]["name"] for item in rentals), _NAMED)
        if refused:
            return f"{len(rentals)} {ended} not on record ({these}): {refused}"
        return f"{len(rentals)} {ended} not counted in the ledger yet ({these})"
    return f"{count(len(rented), 'machine')} {is_or_are(len(rented))} rented ({names(rented, _NAMED)})"
