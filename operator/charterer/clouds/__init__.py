"""What users declare about the nodes of each vendor, as values. Each vendor has a module, which also says how far a
refusal reaches.

The fields of the spec are in ``api.models.clouds``. The adapters that act on these fields are in ``providers``.
"""
