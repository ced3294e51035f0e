"""Mathematics only: hulls, the best path through phases, the exchange rate, and who gets room by a linear program.

Numbers and Options go in and out; no Job, Pool or Snapshot is known here. numpy and HiGHS are
imported by what calls them."""
