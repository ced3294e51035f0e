"""The ledger beside what clouds bill: lines are matched to rentals, and each difference is given its causes. Pure."""
