"""Forks processes that have imported a framework already: nursery.py MODULE...

Each line of standard input is ``{"script": PATH, "arguments": [...], "environ": {...}, "output": PATH}``: a child with
that environment runs the script. The answers are lines, too: ``{"started": PID}``, and ``{"ended": PID, "code": CODE}``
as of subprocess.Popen. Importing torch takes four seconds of processor time, so tests with many processes import it
once.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import runpy
import select
import signal
import sys
import traceback
from typing import Any, NoReturn


def child(asked: dict[str, Any]) -> NoReturn:
    """Become a process that was started to run a script."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    output = os.open(asked["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.environ.clear()
    os.environ.update(asked["environ"])
    code = 1
    try:
        sys.argv = [asked["script"], *asked["arguments"]]
        folders = filter(None, asked["environ"].get("PYTHONPATH", "").split(":"))
        sys.path[:1] = [os.path.dirname(asked["script"]), *folders]
        runpy.run_path(asked["script"], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def say(**answer: int) -> None:
    print(json.dumps(answer), flush=True)


def main() -> None:
    for module in sys.argv[1:]:
        importlib.import_module(module)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    waiting = b""
    while True:
        for descriptor in select.select([0, reader], [], [])[0]:
            data = os.read(descriptor, 65_536)
            if descriptor == reader:
                continue
            if not data:
                return
            *lines, waiting = (waiting + data).split(b"\n")
            for line in lines:
                if (pid := os.fork()) == 0:
                    child(json.loads(line))
                say(started=pid)
        while (ended := _ended()) is not None:
            say(ended=ended[0], code=os.waitstatus_to_exitcode(ended[1]))


def _ended() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


if __name__ == "__main__":
    main()
