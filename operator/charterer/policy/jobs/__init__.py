"""Jobs by themselves: the facts of each, groups that choose alike, what they cost, and what a move gains.

No clock (``now`` is an argument), no pools beyond what they offer, no budget but as a name."""
