"""The loop: what is seen becomes a Snapshot, the plan's commands and the life cycles' steps become single mutations.

Deciding happens in ``policy`` and ``lifecycle``; here is only seeing, ordering, carrying out and showing.
"""
