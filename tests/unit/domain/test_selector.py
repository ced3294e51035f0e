"""Label selectors, as everywhere in Kubernetes."""

from __future__ import annotations

import pytest

from charterer.domain.budget import EVERYTHING, Selector

LABELS = {"gpu": "a100", "tier": "spot"}


@pytest.mark.parametrize(
    ("selector", "text", "selected"),
    [
        (EVERYTHING, "", True),
        (Selector((("gpu", "a100"),)), "gpu=a100", True),
        (Selector((("gpu", "a100"), ("tier", "owned"))), "gpu=a100,tier=owned", False),
        (Selector((), (("gpu", "In", ("a100", "h100")),)), "gpu in (a100, h100)", True),
        (Selector((), (("gpu", "NotIn", ("a100",)),)), "gpu notin (a100)", False),
        (Selector((), (("team", "NotIn", ("a",)),)), "team notin (a)", True),
        (Selector((), (("tier", "Exists", ()), ("team", "DoesNotExist", ()))), "tier,!team", True),
        (Selector((), (("tier", "DoesNotExist", ()),)), "!tier", False),
    ],
)
def test_all_terms_must_hold_and_the_text_is_what_kubectl_takes(selector: Selector, text: str, selected: bool) -> None:
    assert (str(selector), selector.matches(LABELS)) == (text, selected)
