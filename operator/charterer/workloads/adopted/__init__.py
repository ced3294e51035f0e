"""The adopted kinds of teams' objects, one module each (docs/development/adr/0017)."""
