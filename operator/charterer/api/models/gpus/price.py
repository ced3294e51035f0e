"""What a pool's nodes cost, where that is not the list price."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from charterer.api.models.base import ApiModel, ObjectName, Rule, SpecHourly, Time, ruled, rules
from charterer.domain.ids import BudgetId
from charterer.domain.nodes.commitment import Commitment

_ADJUSTMENT: Final = r"^[+-][0-9]{1,2}([.][0-9]{1,2})?%$"
_ADJUSTMENT_RULE: Final = Rule(
    f"self.matches('{_ADJUSTMENT}')", 'write a percentage from -99.99% to +99.99% with its sign, such as "-10%"'
)


def _percentage(text: str) -> str:
    if re.fullmatch(_ADJUSTMENT, text) is None:
        raise ValueError(f"{text!r}: {_ADJUSTMENT_RULE.message}")
    return text


_Percentage = Annotated[
    str, AfterValidator(_percentage), Field(max_length=7, json_schema_extra=rules(_ADJUSTMENT_RULE))
]


class CommittedSpec(ApiModel):
    """That all of the pool's nodes are paid for until a day, used or not."""

    until: Time
    """When the commitment ends. From then on the pool is like any other, at the cloud's list price."""
    budget: ObjectName
    """Name of the GPUBudget that pays. No other budget rents in the pool."""

    def to_domain(self) -> Commitment:
        """The commitment."""
        return Commitment(self.until, BudgetId(self.budget))


class PoolPrice(ApiModel):
    """Price of a node, where it is not the list price."""

    model_config = ruled(
        Rule("has(self.hourly) != has(self.adjustment)", "price needs exactly one of hourly and adjustment"),
        Rule(
            "!has(self.adjustmentUntil) || has(self.adjustment)",
            "adjustmentUntil is the end of an adjustment: give one, or leave it out",
            ".adjustmentUntil",
        ),
        Rule(
            "!has(self.committed) || has(self.hourly)",
            "committed nodes are paid at hourly: give what one costs an hour, or leave committed out",
            ".committed",
        ),
    )

    hourly: SpecHourly | None = None
    """Dollars per hour of one node."""
    adjustment: _Percentage | None = None
    """A discount or surcharge on the list price, such as "-10%"."""
    adjustment_until: Time | None = None
    """Until when the adjustment holds, such as the end of a savings plan. After that the list price counts."""
    committed: CommittedSpec | None = None
    """A reservation or committed-use discount: all maxNodes nodes are paid for at hourly, used or not. They are rented
    at once and kept, and jobs use them first. Absent: nodes are rented and given back as jobs need them."""

    @property
    def basis_points(self) -> int:
        """The adjustment in hundredths of a percent."""
        return int(Decimal((self.adjustment or "0%").removesuffix("%")) * 100)
