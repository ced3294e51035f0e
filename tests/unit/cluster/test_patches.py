"""Bodies of conditional writes."""

from __future__ import annotations

from charterer.cluster import kinds
from charterer.cluster.kinds import pointer, status_apply, uid_test
from charterer.cluster.store import ObjectKey


def test_a_pointer_escapes_what_is_special_in_keys() -> None:
    assert pointer("metadata", "labels", "run.charterer.dev/0a1b~2") == "/metadata/labels/run.charterer.dev~10a1b~02"


def test_a_patch_with_a_uid_names_the_object_that_was_seen() -> None:
    assert uid_test("uid-1") == {"op": "test", "path": "/metadata/uid", "value": "uid-1"}


def test_a_status_is_applied_to_the_version_that_was_seen_and_has_a_namespace_only_where_its_kind_has() -> None:
    job = status_apply(kinds.TRAINING_JOBS, ObjectKey("research", "sft"), "7", {"lastRun": 2})
    assert job == {
        "apiVersion": "charterer.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "sft", "namespace": "research", "resourceVersion": "7"},
        "status": {"lastRun": 2},
    }
    assert "namespace" not in status_apply(kinds.GPU_POOLS, ObjectKey("", "a100"), "7", {})["metadata"]
