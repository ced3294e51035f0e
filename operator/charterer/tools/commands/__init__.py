"""The commands for users. Each is a package or module, which the CLI imports when the command is called."""
