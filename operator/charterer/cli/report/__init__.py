"""``charterer report``: the last month's jobs again, at the same money, in the same time, and with more money."""
