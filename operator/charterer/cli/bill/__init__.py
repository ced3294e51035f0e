"""``charterer bill``: clouds' bills beside the record of costs, as a table, CSV or JSON."""
