"""Why no connection could be made, in the words of the system and not of a library."""

from __future__ import annotations

import os
import ssl


def connection_error(error: Exception) -> str:
    """The cause of a failed connection: ``Connection refused``, ``Name or service not known``.

    Where a library has wrapped the error, its attribute ``certificate_error`` or ``os_error`` is the cause.
    """
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    match cause:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {cause.verify_message}"
        case ssl.SSLError():
            return f"TLS fails: {(cause.reason or str(cause)).replace('_', ' ').lower()}"
        case OSError() if cause.errno is not None and cause.errno > 0:
            return os.strerror(cause.errno)
        case OSError() if cause.strerror:
            return cause.strerror
    return str(cause) or type(cause).__name__
