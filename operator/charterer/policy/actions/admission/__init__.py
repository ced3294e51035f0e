"""Jobs without a place: the options that each asks for, in which order, what they wait for and why."""
