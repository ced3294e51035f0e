"""Why Charterer decides as it does: the facts of each reason, and the one place that makes sentences of them."""
