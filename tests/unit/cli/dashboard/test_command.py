"""How the command begins and ends: clear lines for what is wrong, and a browser that is given no secret."""

from __future__ import annotations

import os
import signal
import socket
import stat
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click
import pytest
from click.testing import CliRunner

from charterer.cli.main import main
from charterer.tools.commands.dashboard.command import PageOptions, serve_page
from charterer.tools.commands.dashboard.documents import Parts
from tests.unit.cli.shared.test_cluster import kubeconfig

OPTIONS = PageOptions(
    budget=None, namespace=None, port=0, no_browser=False, prometheus=None, record="", by=("namespace",)
)


async def nothing() -> Parts:
    return {"plan": None}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--by", "job"], "--by job needs a record of costs, named by --record"),
        (["--by", "weather"], "'weather' is nothing that costs can be summed by"),
        (["--prometheus", "prometheus:9090"], "'prometheus:9090' is no URL: write it like http://127.0.0.1:9090"),
        (["--port", "70000"], "70000 is not in the range"),
        ([], "cannot reach the API server http://127.0.0.1:1: Connection refused"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    file = kubeconfig(tmp_path, "http://127.0.0.1:1")
    ran = CliRunner().invoke(main, ["dashboard", "--no-browser", "--kubeconfig", str(file), *arguments])
    assert ran.exit_code == 1
    assert said in ran.output
    assert "Traceback" not in ran.output


async def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            click.ClickException, match=rf"^port {port} of 127\.0\.0\.1 cannot be used: Address already"
        ):
            await serve_page(nothing, replace(OPTIONS, port=port, no_browser=True))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_browser_is_given_a_file_that_only_its_user_may_read_and_that_is_gone_at_the_end(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[tuple[Path, str, int]] = []

    def open_page(url: str) -> bool:
        file = Path(unquote(urlsplit(url).path))
        opened.append((file, file.read_text(), stat.S_IMODE(file.parent.stat().st_mode)))
        os.kill(os.getpid(), number)
        return True

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", open_page)
    await serve_page(nothing, OPTIONS)
    ((file, text, mode),) = opened
    address = capsys.readouterr().out.partition("The page is at ")[2].split()[0]
    assert address.startswith("http://127.0.0.1:")
    assert f"url={address}" in text
    assert mode == 0o700
    assert not file.exists()


async def test_without_a_screen_no_browser_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("charterer.tools.commands.dashboard.command.read_on", ended)
    await serve_page(nothing, OPTIONS)
    assert opened == []


async def ended(*_: object) -> None:
    """A reader that is done at once."""
