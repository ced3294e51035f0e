"""Charterer's tags are found in whatever form a vendor writes them."""

from __future__ import annotations

import pytest

from charterer.tools.cloud_bills.reader import our_tags
from charterer.tools.reconciliation import OurTags


@pytest.mark.parametrize(
    "text",
    [
        '{"user:charterer.dev:pool": "a100", "user:charterer.dev:rental": "a100-7"}',
        '{"charterer.dev:pool": "a100", "charterer.dev:rental": "a100-7", "team": "x"}',
        '{"user_charterer_dev_pool": "a100", "user_charterer_dev_rental": "a100-7", "aws_created_by": "x"}',
        '{"resourceTags/charterer.dev:pool": "a100", "resourceTags/charterer.dev:rental": "a100-7"}',
        '[{"Key": "charterer.dev:pool", "Value": "a100"}, {"key": "charterer.dev:rental", "value": "a100-7"}]',
    ],
    ids=["aws-focus", "plain", "cur", "prefix", "array"],
)
def test_pool_and_rental_are_found(text: str) -> None:
    assert our_tags(text) == OurTags(pool="a100", rental="a100-7")


def test_googles_labels_and_karpenters_claims_are_found() -> None:
    labels = '[{"Key": "charterer-cluster", "Value": "c1"}, {"Key": "charterer-pool", "Value": "a_b"}]'
    assert our_tags(None, labels) == OurTags(cluster="c1", pool="a_b")
    assert our_tags('{"user:karpenter.sh/nodeclaim": "a100-x1"}') == OurTags(claim="a100-x1")
    assert not our_tags('{"karpenter.sh/nodeclaim": "a100-x1"}').ours


@pytest.mark.parametrize(
    "text",
    [None, "", "null", "7", '"charterer.dev:pool"', "{", "[1, null, {}]", '{"charterer.dev:pool": 7}', "[" * 100_000],
)
def test_what_is_no_tag_tells_nothing(text: str | None) -> None:
    assert our_tags(text) == OurTags()


def test_the_first_of_two_tags_counts() -> None:
    assert our_tags('{"charterer.dev:pool": "one"}', '{"charterer-pool": "two"}').pool == "one"
