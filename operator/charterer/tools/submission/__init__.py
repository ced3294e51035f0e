"""How a job is submitted: its objects and its code, what is refused before, and how its end is waited for."""
