"""IPython in the worker: it runs cells as a notebook does, and passes their outputs to a callback."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ipykernel.jsonutil import encode_images, json_clean
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Any as AnyTrait
from traitlets import Type
from traitlets.config import Config

Emit = Callable[[str, Mapping[str, Any]], None]
"""A callback that gets the kind of an output, as Jupyter's protocol names it, and its content."""

_INTERPRETERS = re.compile(r"__.*|_+|_i+|_i?\d+|_[iod]h|_sh|_exit_code|In|Out|exit|quit|open|get_ipython")


def is_hidden(name: str) -> bool:
    """Whether a name of the namespace is IPython's own. The value of such a name stays in its process."""
    return _INTERPRETERS.fullmatch(name) is not None


class RelayedStream(io.TextIOBase):
    """The standard output or error of a cell."""

    def __init__(self, name: str, emit: Emit) -> None:
        super().__init__()
        self._name = name
        self._emit = emit

    def write(self, text: str) -> int:
        """Emit the text."""
        if text:
            self._emit("stream", {"name": self._name, "text": text})
        return len(text)

    def writable(self) -> bool:
        """Always True."""
        return True


class RelayedPublisher(DisplayPublisher):  # type: ignore[misc]
    """The displayed outputs of a cell."""

    def publish(
        self,
        data: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        *,
        transient: Mapping[str, Any] | None = None,
        update: bool = False,
        **_: object,
    ) -> None:
        """Emit the display data."""
        content = {"data": _clean(data), "metadata": json_clean(metadata or {}), "transient": dict(transient or {})}
        self.shell.emit("update_display_data" if update else "display_data", content)

    def clear_output(self, wait: bool = False) -> None:
        """Emit the removal of all outputs so far."""
        self.shell.emit("clear_output", {"wait": wait})


class RelayedResult(DisplayHook):  # type: ignore[misc]
    """The value of a cell's last expression."""

    def write_output_prompt(self) -> None:
        """Print nothing, because the notebook shows the prompt."""

    def write_format_data(self, format_dict: Mapping[str, Any], md_dict: Mapping[str, Any] | None = None) -> None:
        """Emit the value."""
        self.shell.emit("execute_result", {"data": _clean(format_dict), "metadata": json_clean(md_dict or {})})

    def finish_displayhook(self) -> None:
        """Omit the empty line of a terminal."""
        self._is_active = False


class WorkerShell(InteractiveShell):  # type: ignore[misc]
    """IPython without a terminal, a history or a file of its own."""

    emit = AnyTrait()
    displayhook_class = Type(RelayedResult)
    display_pub_class = Type(RelayedPublisher)
    failure: Mapping[str, Any] | None = None

    @classmethod
    def make(cls, emit: Emit) -> WorkerShell:
        """The shell of this process. From now on, standard output and error are emitted as the cells' outputs."""
        quiet = Config()
        quiet.HistoryManager.enabled = False
        shell = cls.instance(config=quiet, emit=emit, colors="linux")
        sys.stdout = RelayedStream("stdout", emit)
        sys.stderr = RelayedStream("stderr", emit)
        return shell  # type: ignore[no-any-return]

    def run(self, source: str) -> Mapping[str, Any] | None:
        """Run a cell. Returns None, or the content of the error that ended it, which was emitted."""
        self.failure = None
        result = self.run_cell(source, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        if error is not None and self.failure is None:
            self.failure = {"ename": type(error).__name__, "evalue": str(error), "traceback": [repr(error)]}
        return self.failure

    def _showtraceback(self, etype: type, evalue: BaseException, stb: Iterable[str]) -> None:
        self.failure = {"ename": etype.__name__, "evalue": str(evalue), "traceback": list(stb)}
        self.emit("error", self.failure)

    def enable_gui(self, gui: str | None = None) -> None:
        """Do nothing, because there is no window."""

    def init_virtualenv(self) -> None:
        """Do nothing, because the interpreter is the image's."""


def _clean(data: Mapping[str, Any]) -> Any:
    return json_clean(encode_images(dict(data)))
