"""``charterer costs``: who spent what, in tables, CSV, JSON and FOCUS."""
