"""What users declare about the nodes of each vendor, as values: one module for each vendor, with the reach of refusals.

The fields of the spec are in ``api.models.clouds``, and the adapters that act on them in ``providers``.
"""
