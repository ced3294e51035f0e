"""A headless Chromium that a test drives by the DevTools protocol over a websocket."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.patience import PATIENCE

CHROMIUM: Final = shutil.which("chromium") or shutil.which("google-chrome") or ""
_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


class Browser:
    """One page of a Chromium. ``problems``: what its console and its Content-Security-Policy complained about."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._loaded = asyncio.Event()
        self._reading = asyncio.create_task(self._read())
        self.problems: list[str] = []

    async def send(self, method: str, **parameters: Any) -> Any:
        """The result of a command. RuntimeError with what the browser says where it fails."""
        number = next(self._numbers)
        waiting = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(PATIENCE):
            answer = await waiting
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    async def open(self, url: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Load a page in a window of that size, in place of the one before, whose problems are forgotten."""
        await self._go("about:blank")
        self.problems.clear()
        for command in ("Runtime.enable", "Log.clear", "Log.enable"):
            await self.send(command)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        await self.send("Emulation.setEmulatedMedia", features=scheme)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self.send("Emulation.setDeviceMetricsOverride", **size)
        await self._go(url)

    async def _go(self, url: str) -> None:
        await self.send("Page.enable")
        self._loaded.clear()
        await self.send("Page.navigate", url=url)
        async with asyncio.timeout(PATIENCE):
            await self._loaded.wait()

    async def run(self, script: str) -> Any:
        """The value of an expression, awaited if it is a promise. RuntimeError for what it throws."""
        result = await self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"].get("description", "thrown"))
        return result["result"].get("value")

    async def until(self, script: str, seconds: float = 30.0) -> Any:
        """The value of an expression as soon as it is true. AssertionError if it does not become so in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not (value := await self.run(script)):  # noqa: ASYNC110 - a page tells nobody
                    await asyncio.sleep(0.02)
                return value
        raise AssertionError(f"not within {seconds} s: {script}; the page complains about {self.problems}")

    async def press(self, key: str, code: int = 0) -> None:
        """Press a key, such as ``Tab``, and let it go."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            event = {"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code or _CODES.get(key, 0)}
            await self.send("Input.dispatchKeyEvent", **event, **(text if kind == "keyDown" else {}))

    async def picture(self, *, whole: bool = False) -> bytes:
        """The window as PNG, or the ``whole`` page."""
        shot = await self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(shot["data"])

    async def close(self) -> None:
        """Let go of the page."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        async for message in self._socket:
            said = json.loads(message.data)
            if (waiting := self._answers.pop(said.get("id", 0), None)) is not None:
                waiting.set_result(said)
                continue
            told = said.get("params", {})
            match said.get("method"):
                case "Page.loadEventFired":
                    self._loaded.set()
                case "Runtime.exceptionThrown":
                    details = told["exceptionDetails"]
                    self.problems.append(details.get("exception", {}).get("description") or details["text"])
                case "Log.entryAdded" if told["entry"]["level"] in ("error", "warning"):
                    self.problems.append(told["entry"]["text"])


_CODES: Final = {"Tab": 9, "Enter": 13, "End": 35, "Home": 36, "ArrowUp": 38, "ArrowDown": 40}


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    """A Chromium with an empty profile, which is ended afterwards."""
    with tempfile.TemporaryDirectory(prefix="charterer-browser-", ignore_cleanup_errors=True) as folder:
        process = await asyncio.create_subprocess_exec(
            CHROMIUM,
            *_FLAGS,
            f"--user-data-dir={folder}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            port = await _port(Path(folder) / "DevToolsActivePort", process)
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
                    pages = [each for each in await response.json() if each["type"] == "page"]
                async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    browser = Browser(socket)
                    try:
                        yield browser
                    finally:
                        with suppress(Exception):
                            await browser.send("Browser.close")
                        await browser.close()
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


def _content(file: Path) -> str:
    return file.read_text() if file.exists() else ""


async def _port(file: Path, process: asyncio.subprocess.Process) -> int:
    """The port on which Chromium listens, once it says so."""
    async with asyncio.timeout(PATIENCE):
        while not (text := await asyncio.to_thread(_content, file)):
            if process.returncode is not None:
                raise RuntimeError(f"{CHROMIUM} ended with {process.returncode} before it listened")
            await asyncio.sleep(0.02)
    return int(text.splitlines()[0])
