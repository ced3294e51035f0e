"""Each turn's output for users: status views and Events. A view is written only if what it shows has changed.

A view is never read back for planning. Planning reads records, which ``execute`` writes.
"""
