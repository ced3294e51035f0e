"""``charterer predict``: the command, and its answer as a document and as JSON."""
