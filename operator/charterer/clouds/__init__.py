"""What a user says of the nodes of each vendor, as values: one module a vendor, with how far its refusals reach.

The spec that says it is in ``api.models.clouds``; the adapter that acts on it in ``providers``.
"""
