"""The objects that teams already have, each kind with a module (docs/development/adr/0017)."""
