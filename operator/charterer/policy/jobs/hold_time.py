"""When a GPU that an interactive job does not use is given back.

A GPU that is held costs c dollars a second. One that is given back costs, once, when the next cell comes: θ dollars for
each of the W seconds that its owner waits for another, and c for each of the B seconds that are billed for nobody
meanwhile. Nobody knows when that will be. Held until as much has been paid as giving it back costs,

    τ = (θ·W + c·B) / c,

it costs at most twice what somebody who knew would pay (ski rental: Karlin, Manasse, Rudolph and Sleator 1988), and no
rule without randomness promises less. No constant is in it.
"""

from __future__ import annotations

from math import inf


def hold_seconds(worth: float, wait: float, billed: float, price: float) -> float:
    """τ: seconds without use after which GPUs are given back. ``worth``: θ, dollars a second of the owner's waiting.

    ``wait``: W; ``billed``: B, seconds; ``price``: c, dollars a second. Infinite where they cost nothing.
    """
    return (worth * wait + price * billed) / price if price > 0.0 else inf
