"""A process that behaves like a cloud: groups, machines that take time to start, failed launches, faults, a bill.

It plays the outside world. It imports no other package of charterer, and no other package reads its bill.
"""

from __future__ import annotations
