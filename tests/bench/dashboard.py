"""How long the page of ``charterer dashboard`` takes:  python -m tests.bench.dashboard [--jobs 1 100 2000]

A headless Chromium shows a cluster with that many jobs, of one to six runs each, and is told of changes. For each
number of jobs it prints, in milliseconds of the clock: making the page's parts (plan, costs, lanes) and encoding them;
the page's own work for everything that it shows (``render``) and for one frame of scrolling through the lanes
(``lanes``), by ``performance.measure``; and the browser's long tasks, of above 50 ms, meanwhile, which have layout and
painting in them. Everything is drawn by the processor.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence

from charterer.tools.commands.dashboard.command import PageServer
from charterer.tools.commands.dashboard.documents import Board, PageQuestion, cluster_parts, encode
from tests.browser import CHROMIUM, Browser, open_browser
from tests.dashboard_worlds import busy_cluster

UPDATES, FRAMES = 20, 100
_WATCH = """
window.seen = {"charterer render": [], "charterer lanes": [], "self": []};
const keep = (list) => list.getEntries().forEach((it) => seen[it.name]?.push(it.duration));
const watch = (type) => new PerformanceObserver(keep).observe({type});
watch("measure");
watch("longtask");
"""
_READY = "document.querySelectorAll('#figures dd').length > 0"
_ALL = "{const it = document.getElementById('which'); it.value = 'all'; it.dispatchEvent(new Event('input'));}"
_SCROLL = """(async () => {
  const box = document.getElementById("lane-box"), step = box.scrollHeight / FRAMES;
  for (let at = 0; at < FRAMES; at++) { box.scrollTop = at * step; await new Promise(requestAnimationFrame); }
  await new Promise((done) => setTimeout(done, 200));
})()""".replace("FRAMES", str(FRAMES))


def told(name: str, milliseconds: Sequence[float]) -> None:
    """One line of figures."""
    if milliseconds:
        middle, most = statistics.median(milliseconds), max(milliseconds)
        print(f"  {name:<44} {len(milliseconds):>4} times, median {middle:8.1f}, longest {most:8.1f}")
    else:
        print(f"  {name:<44}    never")


async def measure(browser: Browser, jobs: int) -> None:
    """The figures of one number of jobs."""
    cluster = busy_cluster(jobs)
    began = time.perf_counter()
    parts = {**cluster_parts(cluster, PageQuestion()), "history": None, "problem": None}
    made = time.perf_counter()
    encoded = dict(encode(parts))
    done = time.perf_counter()
    print(f"{jobs} jobs, {sum(map(len, encoded.values())) / 1e6:.2f} MB")
    told("parts are made", [(made - began) * 1e3])
    told("parts are encoded", [(done - made) * 1e3])
    board = Board()
    board.show(encoded)
    server = PageServer(board)
    await server.start(0)
    script = await browser.send("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)
    await browser.open(server.url)
    await browser.until(_READY)
    told("first picture after the address was entered", [await browser.run("performance.now()")])
    await browser.run(_ALL)
    await browser.run("void Object.values(seen).forEach((list) => list.length = 0)")
    for number in range(UPDATES):
        encoded["reading"] = encoded["reading"][:-1] + f',"number":{number}}}'
        encoded["plan"] = encoded["plan"][:-1] + f',"number":{number}}}'
        board.show(encoded)
        await browser.until(f"seen['charterer render'].length > {number}")
    seen = await browser.run("seen")
    told("render: everything again", seen["charterer render"])
    told("long tasks meanwhile", seen["self"])
    await browser.run("void Object.values(seen).forEach((list) => list.length = 0)")
    await browser.run(_SCROLL)
    seen = await browser.run("seen")
    told("lanes: one frame of scrolling", seen["charterer lanes"])
    told("long tasks meanwhile", seen["self"])
    await browser.send("Page.removeScriptToEvaluateOnNewDocument", identifier=script["identifier"])
    await server.close()


async def main() -> None:
    """All numbers of jobs in one browser."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 100, 2_000])
    arguments = parser.parse_args()
    if not CHROMIUM:
        print("no chromium on PATH: apt-get install chromium")
        return
    async with open_browser() as browser:
        for jobs in arguments.jobs:
            await measure(browser, jobs)


if __name__ == "__main__":
    asyncio.run(main())
