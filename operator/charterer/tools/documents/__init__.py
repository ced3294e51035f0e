"""Documents for people, made of values: as text and as one HTML page, and pictures.

Imports the domain, the policy and the simulator only, and does no I/O; matplotlib is imported where a picture is drawn.
"""

from __future__ import annotations
