"""Each turn's output for users: status views, written only when what they show has changed, and Events.

A view is shown and never read back for planning; what planning reads is a record, which ``execute`` writes.
"""
