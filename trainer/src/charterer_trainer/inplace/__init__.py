"""Resizing in place: training processes that go on while the group they form changes its members."""
