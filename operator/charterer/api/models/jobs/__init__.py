"""Parts of a TrainingJob's spec."""
