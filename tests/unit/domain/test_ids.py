"""The class of jobs that share one speedup, and its text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.ids import NO_PROFILE, ClassId, JobId

NAMES = st.text("abuid-0", min_size=1)


@given(st.builds(ClassId, NAMES, NAMES) | st.just(NO_PROFILE))
def test_the_class_of_a_profile_is_read_back_from_its_text(class_id: ClassId) -> None:
    assert ClassId.parse(str(class_id)) == class_id


@pytest.mark.parametrize("text", ["sft", "/sft", "research/", "/", "a/b/c"])
def test_a_text_that_names_no_profile_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write namespace/name"):
        ClassId.parse(text)


def test_a_job_without_a_profile_is_a_class_of_its_own_and_counted_with_all_such_jobs() -> None:
    class_id = ClassId.of_job(JobId("4711"))
    assert (class_id.has_profile, class_id.counted_in, str(class_id)) == (False, NO_PROFILE, "uid/4711")


def test_a_profile_in_a_namespace_called_uid_is_a_profile() -> None:
    class_id = ClassId("uid", "4711")
    assert class_id.has_profile
    assert class_id != ClassId.of_job(JobId("4711"))
    assert class_id.counted_in is class_id
