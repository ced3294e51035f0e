"""A request that is refused: the status, a stable code for programs, and a sentence for the person reading the log."""

from __future__ import annotations


class Refused(Exception):
    """Answered as ``{"error": {"code", "message"}}``; ``retry_after`` (whole seconds) becomes Retry-After."""

    def __init__(self, status: int, code: str, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after
