"""Code that several commands use: reading the cluster, the plan with its explanation, histories, words and output.

No command lives here, and nothing here imports one.
"""

from __future__ import annotations
