"""``charterer predict``: how long steps, checkpoints and start-ups will take, before the first run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from charterer.cli.predict.document import predict_document, predict_json
from charterer.cli.predict.prediction import (
    class_predictions,
    learner_of,
    node_sizes,
    recorded_states,
    start_predictions,
)
from charterer.cli.shared.cluster import ClusterOptions, cluster_options, read, read_with
from charterer.cli.shared.output import FORMATS, emit, with_warnings
from charterer.cli.shared.what_ifs.manifest_files import manifest_sources, planned_and_left_out
from charterer.cli.shared.what_ifs.what_if import apply_objects
from charterer.cluster.client import Client
from charterer.cluster.paths import SPEEDUP_PROFILES
from charterer.domain.profile import Profile
from charterer.sentences import similar_names


@click.command()
@click.argument("profile", required=False)
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
@click.option("-n", "--namespace", help="Of PROFILE, and of objects in files that name none. Default: the context's.")
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

    PROFILE is a SpeedupProfile; without it all are shown. A class that has run is predicted from what it reported, also
    at numbers of GPUs that it never used. One that has not is predicted from its spec.model, which you declare:

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
    """The SpeedupProfiles with their whole status. ClickException like ``read``."""

    async def listed(client: Client) -> Sequence[Mapping[str, Any]]:
        return (await client.list(SPEEDUP_PROFILES.all())).items

    return read_with(cluster, listed)


def profile_of(raw: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    """Namespace and name of a written profile."""
    metadata = raw.get("metadata") or {}
    return str(metadata.get("namespace") or namespace), str(metadata.get("name"))


def chosen_profiles(
    profiles: Sequence[Profile], name: str | None, namespace: str, written: Sequence[tuple[str, str]]
) -> Sequence[Profile]:
    """The profile of that name; without one those of the files, or all. ClickException where there is none."""
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
