"""The kinds as pydantic models. One description of each field makes schema and reference and converts domain values.

``decode`` reads Kubernetes' own kinds; ``manifests`` makes the objects that Charterer creates.
"""
