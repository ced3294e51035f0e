"""How the GPUs of pools are cut into slices or shared, and what jobs take of that."""
