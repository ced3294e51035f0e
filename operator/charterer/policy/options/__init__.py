"""What jobs may choose from: sources of options, speeds, menus, and the value of each option to a job.

Nothing here knows which jobs there are."""
