"""The commands for people: each is a package or module of its own, imported when it is called."""
