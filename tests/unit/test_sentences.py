"""Sentences that suggest a name."""

from __future__ import annotations

import pytest

from charterer.sentences import did_you_mean, similar_names

TYPES = ("NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3")


@pytest.mark.parametrize(
    ("asked", "there", "meant"),
    [
        ("A100", TYPES, "NVIDIA-A100-SXM4-40GB"),
        ("nvidia-a100-sxm4-40gb", TYPES[:1], "NVIDIA-A100-SXM4-40GB"),
        ("vti", ("vit", "llama"), "vit"),
        ("T4", TYPES, ""),
        ("", TYPES, ""),
        ("a100", (), ""),
    ],
)
def test_a_name_is_suggested_that_is_similar_or_contains_what_was_asked_for(
    asked: str, there: tuple[str, ...], meant: str
) -> None:
    assert did_you_mean(asked, there) == (f"did you mean {meant}?" if meant else "")


def test_without_a_similar_name_those_that_exist_are_told() -> None:
    assert similar_names("T4", TYPES) == "there are NVIDIA-A100-SXM4-40GB, NVIDIA-H100-80GB-HBM3"
    assert similar_names("T4", ()) == "there is none"
