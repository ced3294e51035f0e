"""The end of a stopped process. It is immediate, without Python's own shut-down, which takes seconds with torch."""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import sys
import threading
import traceback
from typing import NoReturn

EXIT_SECONDS = 5.0
"""Seconds that handlers of ``atexit`` get after a stop."""
_WRITING_SECONDS = 1.0
"""Further seconds, in which the buffers of open files are written."""


def end_now(code: int, seconds: float) -> NoReturn:
    """End the process with ``code`` within ``seconds`` plus one second, even if something hangs.

    First the handlers of ``atexit`` run in their usual order, then the buffers of open files are written. Threads are
    not joined, and no frame, module or C++ object is cleared. With ``seconds`` 0 no handler runs.
    """
    limit = threading.Timer(seconds + _WRITING_SECONDS, os._exit, (code,))
    limit.daemon = True
    try:
        limit.start()
        if seconds > 0:
            atexit._run_exitfuncs()
        _write_open_files()
    except BaseException:  # an error of a handler must not change the exit code
        traceback.print_exc(file=sys.stderr)
    finally:
        os._exit(code)


def _write_open_files() -> None:
    """Flush files that were not closed, as Python does when it clears them.

    Text files are flushed first, because they write into the buffers of other files.
    """
    files = [
        each for each in gc.get_objects() if type(each) in (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
    ]
    for file in [sys.stdout, sys.stderr, *sorted(files, key=lambda each: not isinstance(each, io.TextIOWrapper))]:
        with contextlib.suppress(Exception):
            file.flush()
