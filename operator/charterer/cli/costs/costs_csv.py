"""Costs as CSV that no spreadsheet executes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from charterer.cli.costs.answer import CostsAnswer
from charterer.cli.costs.cost_sums import PURPOSE, purpose
from charterer.cli.costs.costs_document import exact
from charterer.cli.shared.csv_cells import harmless, write_csv
from charterer.domain.money import Money


def dollars(amount: Money) -> str:
    """A number with six decimals."""
    return exact(amount).replace(",", "")


def costs_csv(answer: CostsAnswer, file: TextIO) -> None:
    """A line for each sum."""
    with_purpose = answer.with_cause and PURPOSE not in answer.keys
    header = [
        *("month", "budget", *map(harmless, answer.keys)),
        *([PURPOSE] if with_purpose else []),
        *(["own_dollars", "waste_dollars"] if answer.shares_waste else []),
        *("dollars", "still_open_dollars", "gpu_hours"),
    ]
    write_csv(header, _lines(answer, with_purpose), file)


def _lines(answer: CostsAnswer, with_purpose: bool) -> Iterator[Sequence[str]]:
    for found in answer.budgets:
        for key, each in found.sums:
            yield [
                *(answer.month, harmless(key.budget), *(harmless(cell or "") for cell in key.cells)),
                *([purpose(key.cause)] if with_purpose and key.cause is not None else []),
                *([dollars(each.cost), dollars(each.waste)] if answer.shares_waste else []),
                *(dollars(each.cost + each.waste), dollars(each.open_cost)),
                f"{each.gpu_seconds / 3600:.6f}" if answer.place else "",
            ]
