"""The options of jobs: their sources, speeds, menus, and the value of each option to a job.

Nothing in this package knows which jobs exist."""
