"""Documents as values, rendered as text or one HTML page, and pictures.

The package imports only domain, policy and simulator, and does no I/O. Matplotlib is imported when a picture is drawn.
"""

from __future__ import annotations
