"""The meaning of each word that Charterer writes into states, conditions and Events, and what to do about it."""
