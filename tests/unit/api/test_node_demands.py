"""What is read of a pod template, of volumes and of Nodes; whether the scheduler agrees is tested on the real one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.api.node_demands import class_terms, node_demands, node_traits, volume_terms
from charterer.domain.node_demands import NodeTaint, Requirement
from tests import lanes

ZONE = "topology.kubernetes.io/zone"
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=8), each, max_size=3),
    max_leaves=10,
)
BESIDE_OTHERS: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}
FIELDS = ["nodeSelector", "affinity", "tolerations", "containers", "initContainers", "volumes", "resources", "overhead"]


def asks(**spec: Any) -> dict[str, int]:
    return dict(node_demands({"spec": spec}).asks)


def container(restart: str = "", **requests: str) -> dict[str, Any]:
    return {"resources": {"requests": requests}} | ({"restartPolicy": restart} if restart else {})


def test_containers_run_together_and_others_before_them() -> None:
    two = [container(cpu="1", memory="1Gi"), container(cpu="500m")]
    assert asks(containers=two) == {"cpu": 1500, "memory": 1000 << 30}
    assert asks(containers=two, initContainers=[container(cpu="4")]) == {"cpu": 4000, "memory": 1000 << 30}
    assert asks(containers=two, initContainers=[container("Always", cpu="4")])["cpu"] == 5500
    assert asks(containers=two, overhead={"cpu": "250m"})["cpu"] == 1750
    assert asks(containers=two, resources={"requests": {"cpu": "8"}})["cpu"] == 8000


def test_a_limit_is_a_request_where_there_is_none_and_gpus_are_counted_elsewhere() -> None:
    limits = {"example.com/nic": "2", "nvidia.com/gpu": 8, "nvidia.com/mig-1g.10gb": 1}
    assert asks(containers=[{"resources": {"limits": limits}}]) == {"example.com/nic": 2000}


def test_an_affinity_whose_terms_are_all_empty_is_met_by_no_node() -> None:
    required: dict[str, Any] = {"nodeSelectorTerms": [{}, {"matchExpressions": []}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    ((nowhere,),) = node_demands({"spec": {"affinity": affinity}}).terms
    assert not nowhere.met_by(("any",))


@pytest.mark.parametrize(
    ("spec", "unread"),
    [
        ({"nodeSelector": {f"l{number}": "x" for number in range(65)}}, "nodeSelector"),
        (
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
            "affinity.podAffinity",
        ),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, "topologySpreadConstraints"),
    ],
)
def test_what_only_the_scheduler_judges_is_named(spec: dict[str, Any], unread: str) -> None:
    found = node_demands({"spec": spec})
    assert found.unread == (unread,)
    assert not found.every
    assert not found.terms


def test_claims_and_classes_of_volumes_are_named() -> None:
    made = {"volumeClaimTemplate": {"spec": {"storageClassName": "zonal"}}}
    volumes = [{"persistentVolumeClaim": {"claimName": "data"}}, {"ephemeral": made}, {"emptyDir": {}}]
    found = node_demands({"spec": {"volumes": volumes}})
    assert (found.claims, found.classes) == (("data",), ("zonal",))


def test_a_volumes_terms_say_which_volume_asks() -> None:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}
    volume = {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}}
    assert volume_terms(volume, "data") == ((Requirement(ZONE, "In", ("a",), "PersistentVolumeClaim data"),),)
    assert volume_terms({}, "data") == ()
    allowed = {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]}]}
    assert class_terms(allowed, "zonal") == ((Requirement(ZONE, "In", ("a", "b"), "StorageClass zonal"),),)


def test_what_a_node_has_for_itself_is_not_expected_of_others() -> None:
    labels = {"kubernetes.io/hostname": "n1", "run.charterer.dev/x": "r1", "instance": "n1-id", "disk": "ssd"}
    taint = NodeTaint("team", "ml", "NoSchedule")
    found = node_traits("n1", labels, [taint], {"cpu": "8", "nvidia.com/gpu": "4", "memory": "not a number"})
    assert (found.labels, found.taints, found.room) == ((("disk", "ssd"),), (taint,), (("cpu", 8000),))


@settings(max_examples=lanes.examples(300))
@given(st.dictionaries(st.sampled_from(FIELDS), JUNK))
def test_no_template_breaks_the_reading(spec: dict[str, Any]) -> None:
    """The dry run of the template says what is malformed."""
    hash(node_demands({"spec": spec}))
    volume_terms({"spec": spec}, "data")
    class_terms(spec, "zonal")
