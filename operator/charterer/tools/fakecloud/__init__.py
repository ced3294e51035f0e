"""A process that behaves like a cloud: groups, machines that take time to start, failed launches, faults, a bill.

It plays the outside world: it imports no other package of charterer, and none of them reads its bill.
"""

from __future__ import annotations
