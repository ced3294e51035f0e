"""What ``charterer doctor`` says of commitments."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.cli.doctor.test_doctor import healthy, raw, wrong


def test_a_commitment_that_nobody_pays_or_that_money_does_not_cover_is_a_line_with_what_to_do() -> None:
    _, reading = healthy()
    unpaid = raw("a100")
    unpaid["status"]["conditions"] += raw(
        "a100", "CommitmentKept", "False", reason="NoSuchBudget", message="there is no GPUBudget reserch"
    )["status"]["conditions"]
    short = raw("research", "CommitmentsCovered", "False", reason="AmountBelowCommitments", message="they cost $20")
    found = wrong(replace(reading, pools=(unpaid,), budgets=(*reading.budgets, short)))
    assert [(line.subject, line.text, line.remedy) for line in found] == [
        (
            "GPUPool a100",
            "is committed: there is no GPUBudget reserch",
            "correct `spec.price.committed.budget` or `spec.existing.budget`, or create that GPUBudget",
        ),
        (
            "GPUBudget research",
            "is committed: they cost $20",
            "raise `spec.amount`, or let another budget pay for a commitment",
        ),
    ]
