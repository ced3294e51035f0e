"""A process that behaves like a cloud: groups, machines that take time to start, failed launches, faults, a bill.

It is the world outside: nothing here imports another part of charterer, and nothing in charterer reads its bill.
"""
