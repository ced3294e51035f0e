"""The end of a process that was stopped: at once, without what Python's own shut-down takes (seconds, with torch)."""

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
"""Seconds more in which what open files still hold is written."""


def end_now(code: int, seconds: float) -> NoReturn:
    """End the process with ``code``, at the latest a second after ``seconds``, whatever hangs.

    The handlers of ``atexit`` run before, newest first as ever, and then what files were not closed is written. Threads
    are not waited for, and no frame, module or C++ object is cleared. With ``seconds`` 0 no handler runs.
    """
    limit = threading.Timer(seconds + _WRITING_SECONDS, os._exit, (code,))
    limit.daemon = True
    try:
        limit.start()
        if seconds > 0:
            atexit._run_exitfuncs()
        _write_open_files()
    except BaseException:  # a handler's own error changes the code of no process
        traceback.print_exc(file=sys.stderr)
    finally:
        os._exit(code)


def _write_open_files() -> None:
    """What Python writes when it clears a file that was not closed. Text goes first, for it lies on a buffer."""
    files = [
        each for each in gc.get_objects() if type(each) in (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
    ]
    for file in [sys.stdout, sys.stderr, *sorted(files, key=lambda each: not isinstance(each, io.TextIOWrapper))]:
        with contextlib.suppress(Exception):
            file.flush()
