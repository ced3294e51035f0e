"""The virtual clock, the world in which events happen, and the interfaces of policies and knowledge.

It has no policy and no knowledge of its own.
"""

from __future__ import annotations
