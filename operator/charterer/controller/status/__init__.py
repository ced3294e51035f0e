"""What users see: views of each object computed from snapshot and plan, written when they differ, and Events."""
