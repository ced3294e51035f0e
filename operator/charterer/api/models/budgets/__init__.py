"""Parts of the status of a GPUBudget."""
