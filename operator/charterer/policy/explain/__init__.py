"""Why this option and no other, what more or less money would buy, and what each kind of capacity is worth.

Only the CLI and reports import it.
"""
