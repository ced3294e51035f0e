"""The kinds as pydantic models, each field described once: schema, reference, and to and from domain values.

No reading of Kubernetes' own kinds (``decode``), no manifests of what Charterer creates (``manifests``).
"""
