"""Mathematics only: hulls, the best path through phases, the exchange rate, and linear programs that allot room.

Numbers and Options go in and out. No Job, Pool or Snapshot is known here. numpy and HiGHS are imported by the functions
that call them."""
