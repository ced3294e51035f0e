"""The loop and its packages: snapshots in, single mutations, status and learned profiles out.

Decisions are made in ``policy`` and ``lifecycle``; here is only observing, ordering, carrying out and showing.
"""
