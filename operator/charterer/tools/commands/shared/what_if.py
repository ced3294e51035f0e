"""What-ifs: objects from files, other prices and other amounts, applied to the cluster's state before planning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

import click

from charterer.api import decode
from charterer.api.decode import DecodedNamespace
from charterer.api.models.base import Json, structural
from charterer.api.models.gpupoolset import GPUPoolSetSpec
from charterer.api.models.kinds import KINDS
from charterer.api.names import API_VERSION
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.domain.budget import Budget
from charterer.domain.budget_tree import with_shares
from charterer.domain.errors import InvalidObject
from charterer.domain.ids import BudgetId, PoolId
from charterer.domain.interactive import Interactive
from charterer.domain.job import Job
from charterer.domain.money import Money, Price
from charterer.domain.pool import Pool, Quote
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, format_instant
from charterer.sentences import similar_names
from charterer.tools.commands.shared.files import AllFaults, documents, read_text

# Objects from files.


_OWN: Final = ("TrainingJob", "SpeedupProfile", "GPUBudget", "GPUPool", "GPUPoolSet")
"""Charterer kinds that users write. If an object of one of these kinds has another apiVersion, that is a mistake."""


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """One object as written in a file. ``at`` names the file and the position in the file."""

    at: str
    raw: Mapping[str, Any]

    @property
    def is_namespace(self) -> bool:
        """Whether the object is a Namespace.

        Budgets select Namespaces by label, so plans depend on Namespaces. Plans depend on no other object that is not
        Charterer's.
        """
        return self.raw.get("apiVersion") == "v1" and self.raw.get("kind") == "Namespace"

    def field(self, *path: str) -> Mapping[str, Any]:
        """Return the fields of a nested object, empty if it is absent.

        Raises ClickException if the value is no object.
        """
        found = self.raw
        for number, name in enumerate(path, start=1):
            value = found.get(name)
            if value is not None and not isinstance(value, dict):
                there = ".".join(path[:number])
                raise click.ClickException(f"{self.at}: {there} is {value!r}; it has to be an object with fields")
            found = value or {}
        return found


def manifest_sources(files: Sequence[Path]) -> tuple[ManifestSource, ...]:
    """Parse the objects of YAML or JSON files, ``-`` for stdin.

    ClickException names each file and document with a fault.
    """
    sources: list[ManifestSource] = []
    faults = AllFaults()
    for file in files:
        with faults.of_one():
            sources += _sources("stdin" if str(file) == "-" else str(file), read_text(file), faults)
    faults.tell()
    return tuple(sources)


def sources_in(name: str, text: str) -> tuple[ManifestSource, ...]:
    """The objects in a text of YAML or JSON. Errors call the text ``name``. Raises ClickException as for files."""
    faults = AllFaults()
    sources = _sources(name, text, faults)
    faults.tell()
    return tuple(sources)


def _sources(name: str, text: str, faults: AllFaults) -> list[ManifestSource]:
    sources: list[ManifestSource] = []
    found = documents(name, text)
    for number, document in enumerate(found, start=1):
        with faults.of_one():
            sources += _objects(f"{name}, document {number}" if len(found) > 1 else name, document)
    return sources


def _objects(at: str, document: object) -> list[ManifestSource]:
    if document is None:
        return []
    if not isinstance(document, dict):
        raise click.ClickException(f"{at}: this is no Kubernetes object; begin it with apiVersion and kind")
    if document.get("kind") == "List":
        items = document.get("items") or []
        return [source for index, item in enumerate(items) for source in _objects(f"{at}, items[{index}]", item)]
    return [ManifestSource(at, document)]


def planned_and_left_out(
    sources: Iterable[ManifestSource],
) -> tuple[tuple[ManifestSource, ...], tuple[str, ...]]:
    """Separate the objects that affect a plan, Namespaces first, and make a sentence for each other object."""
    planned: list[ManifestSource] = []
    left_out: list[str] = []
    for source in sources:
        version, kind = str(source.raw.get("apiVersion") or ""), str(source.raw.get("kind") or "")
        if not version or not kind or kind in _OWN or version == API_VERSION or source.is_namespace:
            planned.append(source)
        else:
            name = source.field("metadata").get("name")
            left_out.append(f"{kind} {name} of {source.at} is left out: no plan follows from it")
    return tuple(sorted(planned, key=lambda source: not source.is_namespace)), tuple(left_out)


# GPUPoolSets in files. Each is replaced by the GPUPools that it declares.


def pools_of_set(source: ManifestSource, name: str) -> Iterator[ManifestSource]:
    """Yield the GPUPools of a set, each as an object of the same file. The set must be decodable."""
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
    """Mark the pools that the set no longer declares as deleting. ``set_uid`` is empty for a new set."""
    return {
        key: replace(pool, deleting=True) if set_uid and pool.set_uid == set_uid and pool.id not in declared else pool
        for key, pool in pools.items()
    }


def check_known(source: ManifestSource, pool: Pool, pools: Mapping[ObjectKey, Pool]) -> None:
    """Raise ClickException if the node shape of a set's pool is unknown. A GPUPoolSet has no field in which a user
    could state it.
    """
    alike = pools.get(ObjectKey("", pool.id)) or next(
        (each for each in pools.values() if each.cloud == pool.cloud), None
    )
    if alike is None or alike.offering is None:
        raise click.ClickException(
            f"{source.at}: no cloud has been asked about GPUPool {pool.id} of this set yet, so a what-if has to be "
            "told: write it into the file as a GPUPool, with status.offering and spec.price"
        )


# Faults that ``kubectl apply`` would refuse in a manifest: unknown fields and values of another type.


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}
"""Python types that the YAML parser may return for each JSON type."""


def schema_faults(kind: str, spec: object) -> Iterator[str]:
    """Yield a sentence for each fault below ``spec`` by the kind's schema. An unknown kind has no faults."""
    for known in KINDS:
        if known.kind == kind:
            yield from _faults("spec", spec, structural(known.spec, defaults=False))


def _faults(path: str, value: object, schema: Json) -> Iterator[str]:
    wanted = schema.get("type")
    if wanted is not None and value is not None and not _fits(value, wanted):
        yield f"{path} is {value!r}, and has to be of type {wanted}{_quotes(value, wanted)}"
        return
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from _faults(f"{path}[{number}]", item, schema["items"])
    if not isinstance(value, Mapping):
        return
    fields: Mapping[str, Any] | None = schema.get("properties")
    for name, child in value.items():
        if fields is None:
            if isinstance(schema.get("additionalProperties"), dict):
                yield from _faults(f"{path}.{name}", child, schema["additionalProperties"])
        elif name in fields:
            yield from _faults(f"{path}.{name}", child, fields[name])
        else:
            yield f"unknown field {path}.{name}: {similar_names(str(name), fields)}"


def _quotes(value: object, wanted: str) -> str:
    """Return advice to add or remove quotes, if quotes cause the fault."""
    if wanted == "string":
        return "" if isinstance(value, dict | list) else ": put it in quotes"
    try:
        needless = isinstance(value, str) and [_fits(each, wanted) for each in documents("", value)] == [True]
    except click.ClickException:
        needless = False
    return ": leave the quotes out" if needless else ""


def _fits(value: object, wanted: str) -> bool:
    """Return whether the value has the type. A time that the YAML parser recognised counts as a string."""
    if isinstance(value, bool):
        return wanted == "boolean"
    if isinstance(value, float) and wanted == "integer":
        return value.is_integer()
    return isinstance(value, _TYPES[wanted]) or (wanted == "string" and hasattr(value, "isoformat"))


# What-ifs on the cluster's state.


_NAMESPACED = ("TrainingJob", "SpeedupProfile")


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The changes to try. The default has none. ``prices`` are dollars per hour of one node.

    ``left_out`` has a sentence for each object in the files that does not affect a plan.
    """

    objects: tuple[ManifestSource, ...] = ()
    prices: tuple[tuple[PoolId, Price], ...] = ()
    amounts: tuple[tuple[BudgetId, Money], ...] = ()
    left_out: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.objects or self.prices or self.amounts)


# --- parsing the user's input -----------------------------------------------------------------------------------------


def pool_price(text: str) -> tuple[PoolId, Price]:
    """Parse ``POOL=2.10/h``. Raises click.BadParameter."""
    name, separator, dollars = text.partition("=")
    try:
        if not name or not separator:
            raise ValueError(f"{text!r} is no price of a pool")
        price = Price.parse(dollars.removeprefix("$").removesuffix("/h"))
        if price.micros_per_hour <= 0:
            raise ValueError(f"{dollars} is no price of a node: it has to be more than 0")
        return PoolId(name), price
    except ValueError as error:
        raise click.BadParameter(f"{error}; write POOL=2.10/h, the dollars that an hour of one node costs") from error


def budget_amount(text: str) -> tuple[BudgetId, Money]:
    """Parse ``BUDGET=60000``. Raises click.BadParameter."""
    name, separator, dollars = text.partition("=")
    try:
        if not name or not separator or dollars.startswith("-"):
            raise ValueError(f"{text!r} is no amount of a budget")
        return BudgetId(name), Money.given(dollars.removeprefix("$").replace(",", ""))
    except ValueError as error:
        raise click.BadParameter(f"{error}; write BUDGET=60000, as spec.amount has it") from error


# --- applying objects to the cluster's state --------------------------------------------------------------------------


def apply_objects(state: ClusterState, objects: Iterable[ManifestSource], namespace: str, now: Instant) -> ClusterState:
    """Return the state as if the objects had been applied: new objects are added, existing ones get the new spec.

    ``namespace`` is the default for objects without a namespace. ClickException names file, object and field of all
    faults.
    """
    faults = AllFaults()
    state, objects = _with_namespaces(state, objects, faults)
    for source in objects:
        with faults.of_one():
            state = _with(source, namespace, state, now)
    faults.tell()
    return state


def _with(source: ManifestSource, namespace: str, state: ClusterState, now: Instant) -> ClusterState:
    """Return the state as if one object, which is no Namespace, had been applied."""
    jobs, profiles = dict(state.jobs), dict(state.profiles)
    budgets, pools = dict(state.budgets), dict(state.pools)
    kind, name, key = _identity(source, namespace, state)
    if faults := list(schema_faults(kind, source.field("spec"))):
        raise click.ClickException(f"{source.at}: {kind} {name}: {', '.join(faults)}")
    raw = _complete(source, kind, key, now)
    try:
        match kind:
            case "TrainingJob":
                before = jobs.get(key)
                decoded = decode.training_job(raw)
                _ordered_widths(source, decoded.job)
                job = decoded.job if before is None else _job_of(decoded.job, before.job)
                jobs[key] = replace(decoded, job=job)
            case "SpeedupProfile":
                profiles[key] = decode.profile(raw)
            case "GPUBudget":
                budgets[key] = _budget_of(decode.budget(raw), budgets.get(key))
            case "GPUPool":
                pools[key] = _pool_of(source, decode.pool(raw), pools.get(key), pools.values())
            case "GPUPoolSet":
                pools = _with_set(source, raw, key, state, pools, now)
            case _:
                what = "TrainingJob, SpeedupProfile, GPUBudget, GPUPool or GPUPoolSet"
                raise click.ClickException(f"{source.at}: {kind} {name} is no {what} of {API_VERSION}")
    except InvalidObject as error:
        raise click.ClickException(
            f"{source.at}: {kind} {name}: {error.problem.field}: {error.problem.message}"
        ) from error
    return replace(state, jobs=jobs, profiles=profiles, budgets=budgets, pools=pools)


def _with_namespaces(
    state: ClusterState, objects: Iterable[ManifestSource], faults: AllFaults
) -> tuple[ClusterState, Sequence[ManifestSource]]:
    """Apply the Namespaces among the objects to the state, and return the other objects too."""
    namespaces, others = dict(state.namespaces), []
    for source in objects:
        if not source.is_namespace:
            others.append(source)
            continue
        with faults.of_one():
            name = _name(source, "Namespace")
            before = namespaces.get(ObjectKey("", name), DecodedNamespace(name, {"kubernetes.io/metadata.name": name}))
            namespaces[ObjectKey("", name)] = replace(before, labels={**before.labels, **_labels(source)})
    return replace(state, namespaces=namespaces), others


def written_jobs(
    objects: Iterable[ManifestSource], state: ClusterState, namespace: str, now: Instant
) -> Mapping[ObjectKey, Mapping[str, Any]]:
    """Return the TrainingJobs among the objects as the API server would have them. The objects must be valid."""
    jobs: dict[ObjectKey, Mapping[str, Any]] = {}
    state, objects = _with_namespaces(state, objects, AllFaults())
    for source in objects:
        kind, _, key = _identity(source, namespace, state)
        if kind == "TrainingJob":
            jobs[key] = _complete(source, kind, key, now)
    return jobs


def _identity(source: ManifestSource, namespace: str, state: ClusterState) -> tuple[str, str, ObjectKey]:
    raw, metadata = source.raw, source.field("metadata")
    kind, version = str(raw.get("kind") or ""), str(raw.get("apiVersion") or "")
    if version != API_VERSION or not kind:
        raise click.ClickException(
            f"{source.at}: apiVersion is {version!r}, kind {kind!r}; Charterer's are {API_VERSION}"
        )
    name = _name(source, kind)
    if kind not in _NAMESPACED:
        return kind, name, ObjectKey("", name)
    where = str(metadata.get("namespace") or namespace)
    existing = [namespace.name for namespace in state.namespaces.values()]
    if where not in existing:
        raise click.ClickException(
            f"{source.at}: {kind} {name}: no namespace {where!r}; {similar_names(where, existing)}"
        )
    return kind, name, ObjectKey(where, name)


def _name(source: ManifestSource, kind: str) -> str:
    """Return ``metadata.name``. Raises ClickException if the object has none."""
    name = str(source.field("metadata").get("name") or "")
    if not name:
        raise click.ClickException(f"{source.at}: {kind} has no metadata.name; give it one")
    return name


def _complete(source: ManifestSource, kind: str, key: ObjectKey, now: Instant) -> Mapping[str, Any]:
    """Return the object with the API server's defaults. Of its status, only a pool's offering and quote stay."""
    metadata = {
        "name": key.name,
        "uid": str(uuid5(NAMESPACE_URL, f"what-if/{kind}/{key.namespace}/{key.name}")),
        "resourceVersion": "0",
        "creationTimestamp": format_instant(now),
        "labels": _labels(source),
        **({"namespace": key.namespace} if key.namespace else {}),
    }
    return {
        "metadata": metadata,
        "spec": source.field("spec"),
        "status": _offer(source, now) if kind == "GPUPool" else {},
    }


def _labels(source: ManifestSource) -> Mapping[str, str]:
    """Return ``metadata.labels``. Raises ClickException if a key or value is not text."""
    labels = source.field("metadata", "labels")
    if any(not isinstance(text, str) for pair in labels.items() for text in pair):
        raise click.ClickException(f"{source.at}: metadata.labels is {labels!r}; keys and values must be strings")
    return labels


def _offer(source: ManifestSource, now: Instant) -> Mapping[str, Any]:
    """Return ``status.offering`` and ``status.quote`` of a pool in a file, with defaults for missing fields."""
    offering, quote = source.field("status", "offering"), source.field("status", "quote")
    offer: dict[str, Any] = {}
    if offering:
        offer["offering"] = {"instanceType": "", "zone": "", **offering}
    hourly = source.field("spec", "price").get("hourly") or quote.get("hourly")
    if hourly:
        unknown = {"worstHourly": hourly, "billingMinimumSeconds": 0, "source": "what-if", "asOf": format_instant(now)}
        offer["quote"] = {**unknown, **quote, "hourly": hourly}
    return offer


def _ordered_widths(source: ManifestSource, job: Job) -> None:
    """Raise ClickException if widths do not ascend. Of the API server's validation rules, planning relies only on this
    one.
    """
    widths = job.widths
    if not widths.min <= widths.preferred <= widths.max:
        written = source.field("spec", "gpus")
        given = ", ".join(f"{field} {written[field]}" for field in ("min", "preferred", "max") if field in written)
        told = f"spec.gpus: {given} must be in ascending order"
        raise click.ClickException(f"{source.at}: TrainingJob {job.name}: {told}")


def _job_of(new: Job, before: Job) -> Job:
    """Return the existing job with a new spec. The allocation and the history stay."""
    return replace(
        new,
        id=before.id,
        generation=before.generation + 1,
        resource_version=before.resource_version,
        created=before.created,
        class_id=before.class_id if not new.class_id.has_profile and not before.class_id.has_profile else new.class_id,
        progress=before.progress,
        allocation=before.allocation,
        last_run=before.last_run,
        records=before.records,
        failures=before.failures,
        restarts=before.restarts,
        finish=before.finish,
        replaced=before.replaced,
        predicted=before.predicted,
        predicted_end=before.predicted_end,
        interactive=_sessions_of(new.interactive, before.interactive),
    )


def _sessions_of(new: Interactive | None, before: Interactive | None) -> Interactive | None:
    """Keep the request count of an interactive job, because a manifest need not repeat it."""
    if new is None or before is None:
        return new
    return replace(before, asks=max(new.asks, before.asks), hourly=new.hourly, idle_seconds=new.idle_seconds)


def _budget_of(new: Budget, before: Budget | None) -> Budget:
    if before is None:
        return new
    return replace(new, uid=before.uid, created=before.created, balance=before.balance, guarded=before.guarded)


def _pool_of(source: ManifestSource, new: Pool, before: Pool | None, others: Iterable[Pool]) -> Pool:
    """Return the pool with an offering and a quote. They come from the pool itself, from its former version, or from a
    pool with equal cloud fields.
    """
    alike = before or next((other for other in others if other.cloud == new.cloud), None)
    offering = new.offering or (None if alike is None else alike.offering)
    quote = new.quote or (None if alike is None else _at_new_terms(new, alike))
    if offering is None or quote is None:
        lacking = []
        if offering is None:
            lacking.append("status: {offering: {gpuType: NVIDIA-A100-SXM4-40GB, gpusPerNode: 8}} (what a node is)")
        if quote is None:
            lacking.append('spec.price: {hourly: "12.80"} (the dollars that it costs)')
        raise click.ClickException(
            f"{source.at}: GPUPool {new.id}: no cloud has been asked about this pool yet, so a what-if has to be told. "
            f"Add to the file, with your values: {' and '.join(lacking)}"
        )
    kept = replace(new, offering=offering, quote=quote)
    if before is None:
        return kept
    return replace(
        kept,
        uid=before.uid,
        created=before.created,
        cooled=before.cooled,
        reached=before.reached,
        lifetimes=before.lifetimes,
        launches=before.launches,
        labels=new.labels or before.labels,
    )


def _with_set(
    source: ManifestSource,
    raw: Mapping[str, Any],
    key: ObjectKey,
    state: ClusterState,
    pools: Mapping[ObjectKey, Pool],
    now: Instant,
) -> dict[ObjectKey, Pool]:
    """Add the pools that a set declares, and mark its pools that it no longer declares as deleting."""
    declared, before = decode.pool_set(raw).pools, state.pool_sets.get(key)
    after = without_removed(pools, "" if before is None else before.uid, {*declared})
    for written in pools_of_set(source, key.name):
        name = ObjectKey("", _name(written, "GPUPool"))
        pool = decode.pool(_complete(written, "GPUPool", name, now))
        check_known(source, pool, after)
        after[name] = _pool_of(written, pool, after.get(name), after.values())
    return after


def _at_new_terms(new: Pool, known: Pool) -> Quote | None:
    """Return the ``known`` pool's quote with its list price converted by the new pool's ``spec.price``."""
    quote = known.quote
    if quote is None or (price := new.priced(quote.list_price)) == quote.price:
        return quote
    worst = price
    if new.price_override is None and quote.price.micros_per_hour:  # the ratio of worst price to price stays the same
        worst = Price(round(price.micros_per_hour * quote.worst.micros_per_hour / quote.price.micros_per_hour))
    return replace(quote, price=price, worst=worst, source="what-if", listed=quote.list_price)


# --- applying prices and amounts to the snapshot ----------------------------------------------------------------------


def apply_figures(snapshot: Snapshot, what_if: WhatIf) -> Snapshot:
    """Apply prices and amounts to the snapshot.

    Raises ClickException if a pool, its price or a budget does not exist.
    """
    pools, budgets = dict(snapshot.pools), dict(snapshot.budgets)
    for name, node_price in what_if.prices:
        pool = pools.get(name)
        if pool is None:
            raise click.ClickException(f"--price: no GPUPool {name!r}; {similar_names(name, pools)}")
        if pool.quote is None:
            raise click.ClickException(
                f"--price: the price of GPUPool {name} is not known, so there is none to change: set its "
                "spec.price.hourly, here in a file (-f), or do what its condition Ready says"
            )
        worst = max(node_price, pool.quote.worst) if pool.quote.worst > pool.quote.price else node_price
        pools[name] = replace(pool, quote=replace(pool.quote, price=node_price, worst=worst))
    for budget_name, amount in what_if.amounts:
        budget = budgets.get(budget_name)
        if budget is None:
            raise click.ClickException(f"--amount: no GPUBudget {budget_name!r}; {similar_names(budget_name, budgets)}")
        budgets[budget_name] = replace(budget, amount=budget.dollars(amount), share=None)
    return replace(snapshot, pools=pools, budgets=with_shares(budgets))


def what_if_sentences(what_if: WhatIf, snapshot: Snapshot, namespace: str) -> list[str]:
    """Describe each change in a sentence, with the present value."""
    sentences = []
    for source in what_if.objects:
        metadata = source.field("metadata")
        kind, name = source.raw["kind"], metadata.get("name")
        where = f"{metadata.get('namespace') or namespace}/" if kind in _NAMESPACED else ""
        sentences.append(f"{kind} {where}{name} as in {source.at}")
    for pool, node_price in what_if.prices:
        quote = snapshot.pools[pool].quote if pool in snapshot.pools else None
        sentences.append(f"a node of {pool} costs {node_price}" + (f" instead of {quote.price}" if quote else ""))
    for budget, amount in what_if.amounts:
        before = snapshot.budgets.get(budget)
        dollars = amount if before is None else before.dollars(amount)
        instead = f" instead of {before.declared_amount}" if before else ""
        word = "period" if before is None else before.calendar.word
        sentences.append(f"budget {budget} is {dollars} a {word}{instead}")
    return sentences
