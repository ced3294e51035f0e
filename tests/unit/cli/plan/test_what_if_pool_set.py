"""What-ifs with a GPUPoolSet in a file: it counts as its pools."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.domain.ids import PoolSetId
from charterer.domain.pool_set import PoolSet
from charterer.tools.commands.shared.what_if import ManifestSource, apply_objects
from tests.unit.cli.plan.test_plan import steady
from tests.unit.cli.worlds import charterer_over, seen_of
from tests.worlds import NAMESPACE, World

SET = """
apiVersion: charterer.dev/v1alpha1
kind: GPUPoolSet
metadata: {name: more}
spec:
  template: {spec: {fake: {endpoint: "http://cloud", group: a100}, maxNodes: 4, price: {hourly: "1"}}}
  axes: [{name: capacity, values: [{name: od, spec: {capacityType: OnDemand}}]}]
"""


def of_file(*values: str) -> ManifestSource:
    axes = [{"name": "group", "values": [{"name": each, "spec": {"maxNodes": 4}} for each in values]}]
    template = {"spec": {"fake": {"endpoint": "http://cloud", "group": "a100"}}}
    raw = {
        "apiVersion": "charterer.dev/v1alpha1",
        "kind": "GPUPoolSet",
        "metadata": {"name": "more"},
        "spec": {"template": template, "axes": axes},
    }
    return ManifestSource("set.yaml", raw)


def with_pools(world: World, *objects: ManifestSource, state: ClusterState | None = None) -> ClusterState:
    return apply_objects(state or seen_of(world), objects, NAMESPACE, world.now)


def test_a_set_whose_pools_are_known_is_planned_for_at_what_it_says_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget()
    world.pool("more-od")
    world.job("one", gpus=8)
    written = SET.replace("group: a100", "group: more-od")
    said = charterer_over(world, monkeypatch)("plan", "-f", "-", stdin=written).stdout
    assert "GPUPoolSet more as in stdin" in said
    assert "rent 1 node of more-od for research at $1.00/h each" in said


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("group: a100", "group: h100"), "no cloud has been asked about GPUPool more-od of this set yet, so a what-if"),
        (("maxNodes: 4", "maxNode: 4"), "GPUPoolSet more: unknown field spec.template.spec.maxNode: did you mean"),
        (
            ("maxNodes: 4, ", ""),
            "GPUPoolSet more: spec: GPUPool more-od: spec.maxNodes: say how many nodes may be rented at a time",
        ),
    ],
)
def test_a_set_that_cannot_be_planned_for_is_refused_with_its_pool_and_field(
    change: tuple[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = charterer_over(steady(), monkeypatch)("plan", "-f", "-", stdin=SET.replace(*change))
    assert result.exit_code == 1
    assert told in result.stderr


def test_pools_that_the_set_in_the_file_declares_no_more_are_deleted_and_others_stay() -> None:
    world = World()
    world.pool()
    before = with_pools(world, of_file("a", "b"))
    pools = {
        key: pool if pool.id == "a100" else replace(pool, set_uid="uid-more") for key, pool in before.pools.items()
    }
    there = PoolSet(PoolSetId("more"), "uid-more", 1, world.now, deleting=False, pools={})
    state = replace(before, pools=pools, pool_sets={ObjectKey("", "more"): there})
    after = with_pools(world, of_file("a"), state=state)
    assert {str(pool.id): pool.deleting for pool in after.pools.values()} == {
        "a100": False,
        "more-a": False,
        "more-b": True,
    }
