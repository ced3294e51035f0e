"""Why this option and no other, and what more or less money would buy. Only the CLI and reports import it."""
