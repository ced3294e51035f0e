"""Resizing in place: the training processes continue while the members of their group change."""
