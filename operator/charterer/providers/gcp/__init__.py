"""Google Cloud: instances of zonal managed instance groups, and of bulkInsert.

Only this package imports google-cloud-compute, and only when a pool of Google Cloud calls it for the first time. It
uses the SDK's own credentials.
"""
