"""Parts of GPUBudgets."""
