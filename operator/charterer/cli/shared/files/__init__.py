"""Files that a person names."""
