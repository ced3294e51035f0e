"""What an interactive job's process says of its GPU, as its posts have it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from aiohttp import web

from charterer_trainer.environment import Environment
from charterer_trainer.session import Session
from tests.unit.trainer.support import SECONDS


async def test_a_change_is_posted_at_once_and_is_in_every_later_report(tmp_path: Path) -> None:
    posts: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def take(request: web.Request) -> web.Response:
        posts.put_nowait(await request.json())
        return web.json_response({"againSeconds": 300})

    app = web.Application()
    app.router.add_post("/v1/progress", take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    (tmp_path / "token").write_text("token")
    session = Session(
        Environment.read(
            {"CHARTERER_PROGRESS_URL": f"http://127.0.0.1:{port}", "CHARTERER_TOKEN_FILE": str(tmp_path / "token")}
        )
    )
    async with asyncio.timeout(SECONDS):
        assert "busy" not in await posts.get()
        session.busy(True)
        assert (await posts.get())["busy"] is True
        session.busy(True)
        session.busy(False)
        assert (await posts.get())["busy"] is False
        session.report(step=1, total_steps=2)
        await asyncio.to_thread(session.close)
        last = await posts.get()
    assert (last["busy"], last["step"]) == (False, 1)
    await runner.cleanup()
