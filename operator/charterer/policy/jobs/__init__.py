"""What follows from jobs: the facts of each, groups of jobs that choose alike, what they cost, and what a move gains.

No clock (``now`` is an argument), no pools beyond what they offer, no budget but as a name."""
