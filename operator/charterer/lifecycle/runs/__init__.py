"""Parts of the life of a run: its group while it is resized in place, and the adopted object that carries it out."""
