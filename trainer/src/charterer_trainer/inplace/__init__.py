"""Resizing in place: training processes that continue while the group that they form changes its members."""
