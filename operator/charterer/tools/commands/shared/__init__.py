"""Code that several commands share: cluster reads, the plan with its reasons, job histories, what-ifs and output.

This package contains no command and imports none.
"""

from __future__ import annotations
