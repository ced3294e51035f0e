"""Each turn's output for users, which is status views and Events. A view is written only if its content has changed.

A view is never read back for planning. Planning reads records, which ``execute`` writes.
"""
