"""Calls of clouds by an operator with 20 pools and 1,000 nodes: in an hour without events, and for each node rented.

    python -m tests.bench.calls [--cloud aws|azure|gcp] [--pools 20] [--nodes 900]

Surveys, quotes, preflights and renewals run for an hour of virtual time at their usual pace. Their calls are counted by
the clouds of the tests, without HTTP in between. Then a node is rented, starts in four minutes, runs for ten and takes
one to end; and then five more of each pool within five minutes, 1,000 in all. What that adds to the calls of the idle
time is divided by the number of nodes.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from functools import partial

from tests.bench._aws_calls import AWS_KINDS, CountedAws
from tests.bench._azure_calls import AZURE_KINDS, CountedAzure
from tests.bench._cloud_calls import AtOnceLoop, CountedCloud, measure
from tests.bench._gcp_calls import GCP_KINDS, CountedGcp

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cloud", choices=("aws", "azure", "gcp"), help="only this cloud (all)")
    parser.add_argument("--pools", type=int, default=20, help="how many pools (20)")
    parser.add_argument("--nodes", type=int, default=900, help="how many nodes run all the time (900)")
    given = parser.parse_args()
    worlds: list[tuple[str, str, Callable[[], CountedCloud]]] = [
        ("aws", kind, partial(CountedAws, kind, given.pools, given.nodes)) for kind in AWS_KINDS
    ]
    worlds += [("azure", kind, partial(CountedAzure, kind, given.pools, given.nodes)) for kind in AZURE_KINDS]
    worlds += [("gcp", kind, partial(CountedGcp, kind, given.pools, given.nodes)) for kind in GCP_KINDS]
    for cloud, kind, make in worlds:
        if given.cloud in (None, cloud):
            with asyncio.Runner(loop_factory=AtOnceLoop) as runner:
                runner.run(measure(kind, make, given.nodes))
