"""``charterer predict`` estimates the duration of steps, checkpoints and node starts before the first run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, exp, sqrt
from pathlib import Path
from typing import Any

import click

from charterer.api.metadata import ObjectMeta
from charterer.api.models.learned_record import class_state
from charterer.api.models.speedupprofile import SpeedupProfileRecord
from charterer.cluster.client import Client
from charterer.cluster.paths import SPEEDUP_PROFILES
from charterer.domain.errors import InvalidObject
from charterer.domain.ids import ClassId, PoolId
from charterer.domain.pool import Pool
from charterer.domain.profile import BatchTerms, CurveSource, Profile
from charterer.estimate.class_state import ClassState
from charterer.estimate.learned import LIKELY
from charterer.estimate.learner import DEFAULT_NODE_GPUS, Learner
from charterer.estimate.observation import Shape, split
from charterer.gpu_types import data_sheet, slice_profile
from charterer.policy.options.sources import checkpoint_seconds
from charterer.sentences import similar_names
from charterer.tools.commands.shared.cluster import ClusterOptions, cluster_options, read, read_with
from charterer.tools.commands.shared.completion import namespace_names, profile_names
from charterer.tools.commands.shared.output import FORMATS, JsonValue, copied, emit, with_warnings
from charterer.tools.commands.shared.what_if import apply_objects, manifest_sources, planned_and_left_out
from charterer.tools.documents.document import (
    Block,
    Document,
    DocumentTable,
    Heading,
    Paragraph,
    TableColumn,
    Tone,
    row,
)

# Predictions for each class: seconds of a step and of a checkpoint, by the operator's learner.


_ONE_SAMPLE = BatchTerms(1, 1, 1)
"""Batch terms of a class whose batch size is neither declared nor reported. Seconds are then seconds per sample."""


class PredictionBasis(StrEnum):
    """The source of a checkpoint's seconds, or of a start's seconds if no start was observed."""

    DECLARED = "declared"
    KNOWN = "declared or reported"
    PARAMETERS = "by model.parameters"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class StepPrediction:
    """Seconds of a step of ``batch`` samples on ``gpus`` GPUs, with the 90 % interval.

    ``batch`` None means a step of one sample.
    """

    gpu_type: str
    gpus: int
    batch: int | None
    seconds: float
    low: float
    high: float
    source: CurveSource

    @property
    def samples_per_second(self) -> float:
        return (self.batch or 1) / self.seconds


@dataclass(frozen=True, slots=True)
class ClassPrediction:
    """The prediction for one class. ``alike``: number of other described classes that have run and influence the prior.

    ``missing`` names the field to declare if there is no prediction. Otherwise it is empty.
    """

    class_id: ClassId
    steps: tuple[StepPrediction, ...]
    checkpoint_seconds: float
    checkpoint_basis: PredictionBasis
    alike: int
    missing: str


@dataclass(frozen=True, slots=True)
class StartPrediction:
    """Seconds from a node's launch until it is ready: the mean over ``seen`` observed starts and ``declared`` starts
    that stand for the declared value.
    """

    pool: PoolId
    seconds: float
    declared: float
    seen: int

    @property
    def basis(self) -> str:
        """The basis of the mean: ``declared``, or ``3 seen, and 120 declared``."""
        return f"{self.seen} seen, and {self.declared:.0f} declared" if self.seen else PredictionBasis.DECLARED.value


def recorded_states(profiles: Iterable[Mapping[str, Any]]) -> Mapping[ClassId, ClassState]:
    """Decode the learner's state from the status of SpeedupProfiles. Profiles that cannot be decoded are skipped."""
    found = {}
    for raw in profiles:
        meta = ObjectMeta.of("SpeedupProfile", raw)
        class_id = ClassId(meta.namespace, meta.name)
        try:
            record = meta.read(SpeedupProfileRecord, "status", raw)
            statistics = record.statistics()
            if record.learned is not None and statistics is not None:
                found[class_id] = class_state(class_id, record.learned, statistics)
        except (InvalidObject, ValueError):
            continue
    return found


def learner_of(profiles: Collection[Profile], states: Mapping[ClassId, ClassState]) -> Learner:
    """Rebuild the operator's learner, as if every class that has run had reported since the operator's last restart."""
    learner = Learner({})
    for profile in profiles:
        state = states.get(profile.id)
        if state is not None:
            learner.restore(state)
        if profile.batch is not None or state is None:
            learner.declare(profile.id, profile.batch or _ONE_SAMPLE)
        learner.describe(profile.id, profile.model)
    there = {profile.id for profile in profiles}
    for class_id, state in states.items():
        for gpu_type in state.times if class_id in there else ():
            learner.step_times(class_id, gpu_type)
    return learner


def class_predictions(
    chosen: Sequence[Profile],
    profiles: Collection[Profile],
    learner: Learner,
    nodes: Mapping[str, int],
    gpus: Sequence[int] = (),
) -> list[ClassPrediction]:
    """Predict each chosen class. ``profiles`` must be those of ``learner_of``.

    ``nodes`` maps a GPU type to the GPUs of a node. ``gpus`` are widths. If it is empty, the widths are 1 GPU, one node
    and two nodes.
    """
    for gpu_type, size in nodes.items():
        learner.set_node_gpus(gpu_type, size)
    return [_class_prediction(profile, profiles, learner, nodes, gpus) for profile in chosen]


def start_predictions(pools: Iterable[Pool]) -> list[StartPrediction]:
    """Predict the start of each pool's nodes."""
    return [
        StartPrediction(
            pool.id,
            pool.likely_start_seconds,
            pool.start_seconds,
            ceil(pool.known_launches.starts),
        )
        for pool in sorted(pools, key=lambda pool: pool.id)
    ]


def node_sizes(pools: Iterable[Pool], named: Iterable[str]) -> Mapping[str, int]:
    """Return the GPUs of the largest node by GPU type, over the pools and with a default for the ``named`` types."""
    sizes: dict[str, int] = dict.fromkeys(named, DEFAULT_NODE_GPUS)
    offered: dict[str, int] = {}
    for pool in pools:
        if pool.offering is not None:
            gpu_type = pool.offering.gpu_type
            widest = 1 if slice_profile(gpu_type) else pool.offering.gpus_per_node
            offered[gpu_type] = max(offered.get(gpu_type, 1), widest)
    return sizes | offered


def _class_prediction(
    profile: Profile, profiles: Iterable[Profile], learner: Learner, nodes: Mapping[str, int], gpus: Sequence[int]
) -> ClassPrediction:
    ran = learner.widths_run(profile.id)
    steps = [
        _step(profile.id, learner, gpu_type, size, width)
        for gpu_type, size in sorted(nodes.items())
        if ran or (profile.model.flops_per_sample is not None and data_sheet(gpu_type) is not None)
        for width in _widths(learner, profile.id, size, gpus)
        if width == 1 or not slice_profile(gpu_type)
    ]
    missing = "" if ran or profile.model.flops_per_sample is not None else "spec.model.flopsPerSample"
    alike = sum(other.id != profile.id and _informs(other, learner) for other in profiles)
    seconds = checkpoint_seconds(profile)
    return ClassPrediction(profile.id, tuple(steps), seconds, _checkpoint_basis(profile), alike, missing)


def _informs(other: Profile, learner: Learner) -> bool:
    return other.model.flops_per_sample is not None and bool(learner.widths_run(other.id))


def _widths(learner: Learner, class_id: ClassId, node_gpus: int, asked: Sequence[int]) -> Sequence[int]:
    if learner.declared(class_id) == _ONE_SAMPLE:
        return (1,)
    return sorted(set(asked) or {1, node_gpus, 2 * node_gpus})


def _step(class_id: ClassId, learner: Learner, gpu_type: str, node_gpus: int, gpus: int) -> StepPrediction:
    terms = learner.state(class_id).terms
    where = split(terms, Shape(-(-gpus // node_gpus), gpus), terms.own)
    fit = learner.step_times(class_id, gpu_type)
    found = fit.predict(where)
    spread = LIKELY * sqrt(found.variance)
    source = CurveSource.EXTRAPOLATED if learner.widths_run(class_id) else CurveSource.PRIOR
    return StepPrediction(
        gpu_type,
        gpus,
        None if terms == _ONE_SAMPLE else where.batch,
        exp(found.mean),
        exp(found.mean - spread),
        exp(found.mean + spread),
        CurveSource.MEASURED if found.count else source,
    )


def _checkpoint_basis(profile: Profile) -> PredictionBasis:
    if profile.checkpoint_seconds is not None:
        return PredictionBasis.KNOWN
    return PredictionBasis.ASSUMED if profile.model.parameters is None else PredictionBasis.PARAMETERS


# The answer as a document and as JSON.


_STEPS = (
    TableColumn("CLASS"),
    TableColumn("GPUS", right=True),
    TableColumn("GPU TYPE"),
    TableColumn("BATCH", right=True),
    TableColumn("STEP", right=True),
    TableColumn("IN 9 OF 10 CASES", right=True),
    TableColumn("SAMPLES/S", right=True),
    TableColumn("SOURCE"),
)
_TIMES = (TableColumn("OF"), TableColumn("SECONDS", right=True), TableColumn("BASIS"))


def predict_document(classes: Sequence[ClassPrediction], starts: Sequence[StartPrediction]) -> Document:
    """Make tables of steps, checkpoints and starts, and name fields to declare if there is no prediction."""
    blocks: list[Block] = [Heading("Seconds of a training step")]
    rows = [
        row(
            str(found.class_id),
            str(step.gpus),
            step.gpu_type,
            "-" if step.batch is None else str(step.batch),
            _seconds(step.seconds),
            f"{_seconds(step.low)} to {_seconds(step.high)}",
            f"{step.samples_per_second:,.3g}",
            step.source.value,
        )
        for found in classes
        for step in found.steps
    ]
    if rows:
        blocks.append(DocumentTable(_STEPS, tuple(rows)))
    blocks += [Paragraph(sentence, tone) for sentence, tone in _sentences(classes)]
    blocks.append(Heading("Seconds of a checkpoint"))
    checkpoints = [
        row(str(found.class_id), f"{found.checkpoint_seconds:.3g}", found.checkpoint_basis.value) for found in classes
    ]
    blocks.append(DocumentTable(_TIMES, tuple(checkpoints)))
    if starts:
        blocks.append(Heading("Seconds until a new node is ready"))
        blocks.append(
            DocumentTable(_TIMES, tuple(row(start.pool, f"{start.seconds:.0f}", start.basis) for start in starts))
        )
    return Document("charterer predict", tuple(blocks))


def _sentences(classes: Sequence[ClassPrediction]) -> list[tuple[str, Tone]]:
    found = []
    for each in classes:
        if each.missing:
            text = f"{each.class_id}: no job of it has run; {each.missing} would say what to expect."
            found.append((text, Tone.FAINT))
        elif not each.steps:
            found.append((f"{each.class_id}: the data sheet of no GPU type here is known.", Tone.FAINT))
        elif any(step.source is CurveSource.PRIOR for step in each.steps):
            others = f"{each.alike or 'no'} other {'class' if each.alike == 1 else 'classes'} with one ran here"
            text = f"{each.class_id}: by its spec.model; {others}. The first report outweighs this."
            found.append((text, Tone.PLAIN))
    return found


def predict_json(classes: Sequence[ClassPrediction], starts: Sequence[StartPrediction]) -> dict[str, JsonValue]:
    """Return the answer as JSON."""
    return {
        "classes": [
            {
                **copied(found.class_id, "namespace name"),
                "steps": [
                    copied(step, "gpuType gpus batch seconds low high samplesPerSecond source") for step in found.steps
                ],
                **copied(found, "checkpointSeconds checkpointBasis classesAlike=alike"),
                "missing": found.missing or None,
            }
            for found in classes
        ],
        "pools": [copied(start, "name=pool startSeconds=seconds seen declaredSeconds=declared") for start in starts],
    }


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 1.0 else f"{1000.0 * value:.3g} ms"


# The command.


@click.command()
@click.argument("profile", required=False, shell_complete=profile_names)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, allow_dash=True),
    help="As if this were applied: SpeedupProfile, GPUPool (YAML; - is stdin). Repeatable.",
)
@click.option("--gpus", multiple=True, type=click.IntRange(1, 100_000), help="Widths. Default: 1, a node, two nodes.")
@click.option("--gpu-type", "gpu_types", multiple=True, help="Also on this GPU type, which no pool has (A100, H100).")
@click.option(
    "-n",
    "--namespace",
    shell_complete=namespace_names,
    help="Of PROFILE, and of objects in files that name none. Default: the context's.",
)
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Format.")
@cluster_options
def predict(
    profile: str | None,
    files: tuple[Path, ...],
    gpus: tuple[int, ...],
    gpu_types: tuple[str, ...],
    namespace: str | None,
    output: str,
    cluster: ClusterOptions,
) -> None:
    """Show how long steps, checkpoints and node start-ups of a class of jobs will take. Changes nothing.

    PROFILE is a SpeedupProfile. Without it, all profiles are shown. If a class has run, the prediction comes from its
    reports, even at numbers of GPUs that it never used. If a class has not run, the prediction comes from its
    spec.model, which you declare:

    \b
      model:
        family: resnet             # classes that run the same program; what one measured tells about the others
        flopsPerSample: 2.45e+10   # forward and backward: 6 per multiply-add, or 6 per parameter and token
        parameters: 25600000       # says how long a checkpoint takes

    \b
      charterer predict resnet-152
      charterer predict -f profile.yaml --gpu-type A100 --gpus 1 --gpus 8
      charterer predict resnet-152 -o json | jq '.classes[0].steps[] | {gpuType, gpus, seconds, low, high}'

    With nothing measured, the true value lies within a factor of 3 or so of the prediction in 9 of 10 cases; once
    several classes of the family have run on the GPU type, within a third or so. SOURCE is Prior (no job of the class
    ran), Extrapolated (at other widths or on other GPU types) or Measured. The first report outweighs every prior.

    Exit code: 0, or 1 for an error such as a profile that does not exist.
    """
    planned, left_out = planned_and_left_out(manifest_sources(files))
    reading = read(cluster)
    here = namespace or reading.namespace
    state = apply_objects(reading.state, planned, here, reading.now)
    profiles = list(state.profiles.values())
    written = [profile_of(source.raw, here) for source in planned if source.raw.get("kind") == "SpeedupProfile"]
    chosen = chosen_profiles(profiles, profile, here, written)
    pools = list(state.pools.values())
    learner = learner_of(profiles, recorded_states(read_profiles(cluster)))
    classes = class_predictions(chosen, profiles, learner, node_sizes(pools, gpu_types), gpus)
    starts = start_predictions(pools)
    document = with_warnings(predict_document(classes, starts), (reading.trouble, *left_out))
    plain = {**predict_json(classes, starts), "nobodyActs": reading.trouble or None, "warnings": left_out}
    emit(document, plain, output)


def read_profiles(cluster: ClusterOptions) -> Sequence[Mapping[str, Any]]:
    """Read the SpeedupProfiles with their whole status. Raises like ``read``."""

    async def listed(client: Client) -> Sequence[Mapping[str, Any]]:
        return (await client.list(SPEEDUP_PROFILES.all())).items

    return read_with(cluster, listed)


def profile_of(raw: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    """Return namespace and name of a profile in a file."""
    metadata = raw.get("metadata") or {}
    return str(metadata.get("namespace") or namespace), str(metadata.get("name"))


def chosen_profiles(
    profiles: Sequence[Profile], name: str | None, namespace: str, written: Sequence[tuple[str, str]]
) -> Sequence[Profile]:
    """Return the profile of this name. Without a name, return the profiles of the files, or if there are no files all
    profiles.

    Raises ClickException if there is none.
    """
    ordered = sorted(profiles, key=lambda profile: profile.id)
    if name is not None:
        found = [profile for profile in ordered if profile.id == (namespace, name)]
        if not found:
            there = [profile.id.name for profile in ordered if profile.id.namespace == namespace]
            hint = similar_names(name, there)
            raise click.ClickException(f"no SpeedupProfile {name!r} in namespace {namespace}: {hint}")
        return found
    if written:
        return [profile for profile in ordered if profile.id in written]
    if not ordered:
        raise click.ClickException("there is no SpeedupProfile: apply one, or name a file with -f")
    return ordered
