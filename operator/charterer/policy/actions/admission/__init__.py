"""Jobs without GPUs: their options, their order in the queue, what they wait for, and why."""
