"""Mathematics only: hulls, the best path through phases, the exchange rate, and linear programs that allot room.

The package takes and returns numbers and Options. It knows no Job, Pool or Snapshot. numpy and HiGHS are imported by
the functions that call them."""
