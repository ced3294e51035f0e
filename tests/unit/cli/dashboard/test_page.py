"""The page in a real browser: what a person sees and can do, with any number of jobs and any text in them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.ids import JobId
from charterer.domain.time import parse_instant
from charterer.tools.commands.dashboard.command import PageServer
from charterer.tools.commands.dashboard.documents import (
    Board,
    PageQuestion,
    Parts,
    Sighting,
    cluster_parts,
    encode,
    own_parts,
)
from charterer.tools.commands.shared.one_namespace import OwnJobs, seen_job
from tests.browser import Browser
from tests.dashboard_worlds import busy_cluster
from tests.unit.cli.shared.test_own_jobs import raw
from tests.unit.cli.worlds import seen_of
from tests.worlds import World

pytestmark = pytest.mark.xdist_group("browser")

NOTHING_MORE: Mapping[str, Any] = {"history": None, "problem": None}
LAST_ROW = "[...document.querySelectorAll('#lane-names li')].filter(li => !li.hidden).at(-1)?.ariaPosInSet"
DRAWN = "document.getElementById('lane-canvas').getContext('2d').getImageData(236, 0, 900, 30).data.some(v => v)"
HEADED = "[...document.querySelectorAll('.scroll table')].every(it => it.caption && it.querySelector('th[scope=col]'))"
READY = "document.querySelectorAll('#lane-names button').length > 0 && document.querySelectorAll('#figures dd').length"


def parts_of(seen: Sighting) -> dict[str, Any]:
    return {**cluster_parts(seen, PageQuestion()), **NOTHING_MORE}


@asynccontextmanager
async def serving(parts: Parts) -> AsyncIterator[tuple[str, Board]]:
    """The address of a page that shows these parts, and its board."""
    board = Board()
    board.show(encode(parts))
    server = PageServer(board)
    await server.start(0)
    try:
        yield server.url, board
    finally:
        await server.close()


async def text(browser: Browser, selector: str) -> str:
    """What a person reads in an element."""
    return str(await browser.run(f"document.querySelector({json.dumps(selector)}).innerText"))


async def choose(browser: Browser, control: str, value: str) -> None:
    """Set a control, as a person does."""
    await browser.run(
        f"(() => {{ const it = document.getElementById('{control}'); it.value = {json.dumps(value)};"
        "it.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


@pytest.mark.parametrize("jobs", [1, 100, 2_000])
async def test_the_page_shows_any_number_of_jobs_and_draws_those_in_view(browser: Browser, jobs: int) -> None:
    async with serving(parts_of(busy_cluster(jobs))) as (url, _):
        await browser.open(url)
        await browser.until(READY)
        await choose(browser, "which", "all")
        await browser.until(f"document.getElementById('job-count').value.startsWith('{jobs} of {jobs} job')")
        assert await browser.run("document.querySelectorAll('#lane-names li').length") <= 40
        await browser.run("document.getElementById('lane-box').scrollTop = 1e9")
        await browser.until(f"{LAST_ROW} === '{jobs}'")
        assert await browser.run(DRAWN)
        assert browser.problems == []


async def test_the_numbers_are_those_of_the_plan_and_every_picture_has_a_table(browser: Browser) -> None:
    parts = parts_of(busy_cluster(20))
    async with serving(parts) as (url, _):
        await browser.open(url)
        await browser.until(READY)
        (budget,) = parts["plan"]["budgets"]
        figures = await text(browser, "#figures")
        assert f"${round(float(budget['spent'])):,}" in figures
        assert f"${float(budget['paysPerHourSaved']):,.2f}" in figures
        assert "$60,000" in figures
        assert await browser.run("document.querySelectorAll('#spend-chart canvas, #past-chart canvas').length") == 2
        await browser.run("document.querySelectorAll('details').forEach(it => it.open = true)")
        for table in ("spend", "past", "frontier", "costs", "waste", "lost", "job"):
            await browser.until(f"document.querySelectorAll('#{table}-table tbody tr').length > 0")
        assert await browser.run(HEADED)
        assert await browser.run("document.querySelectorAll('#frontier-table tr.here').length") == 1
        assert "vision" in await text(browser, "#costs-table")
        losses = parts["budgets"][0]["losses"]
        assert f"Lost this month: ${round(float(losses['lost'])):,}" in await text(browser, "#lost-note")
        assert losses["causes"][0]["toDo"] in await text(browser, "#lost-table")
        assert browser.problems == []


async def test_what_is_not_counted_by_namespace_yet_is_a_row_so_that_both_tables_add_up(browser: Browser) -> None:
    parts = parts_of(busy_cluster(4))
    parts["plan"]["budgets"][0]["spentFor"] = {"training": "101", "idle": "7"}
    row = {"budget": parts["plan"]["budgets"][0]["name"], "namespace": "vision", "stillOpen": "0", "gpuHours": None}
    parts["costs"]["costs"] = [row | {"purpose": "job", "dollars": "89"}, row | {"purpose": "idle", "dollars": "7"}]
    async with serving(parts) as (url, _):
        await browser.open(url)
        await browser.until(READY)
        found = "[...document.querySelectorAll('#costs-table tbody tr')]"
        rows = f"{found}.map(it => [...it.cells].slice(0, 2).map(cell => cell.innerText))"
        await browser.until(f"{rows}.length === 2")
        assert await browser.run(rows) == [["vision", "$89.00"], ["since this was counted", "$12.00"]]
        assert "$101" in await text(browser, "#waste-table")
        assert browser.problems == []


async def test_each_budget_has_its_numbers_and_jobs(browser: Browser) -> None:
    parts = parts_of(busy_cluster(4))
    for name in ("plan", "costs"):
        parts[name] = json.loads(json.dumps(parts[name]))
    parts["budgets"] = [*parts["budgets"], dict(parts["budgets"][0], name="vision", aim="1234.00", days=[])]
    parts["plan"]["budgets"].append(dict(parts["plan"]["budgets"][0], name="vision", moreOrLess=None))
    parts["budgets"].append(dict(parts["budgets"][0], name="young"))
    assumed = {"perHour": 1.0, "basis": "Assumed", "batches": 1}
    parts["plan"]["budgets"].append(dict(parts["plan"]["budgets"][0], name="young", moreOrLess=None, arrivals=assumed))
    mine = parts["lanes"][0]
    parts[mine] = dict(parts[mine], budget="vision")
    async with serving(parts) as (url, _):
        await browser.open(url)
        await browser.until(READY)
        assert await text(browser, "#money") == "All budgets"
        await choose(browser, "which", "all")
        await browser.until("document.getElementById('job-count').value.startsWith('4 of 4')")
        await choose(browser, "budget", "vision")
        await browser.until("document.getElementById('money').innerText === 'Budget vision'")
        assert "of $1,234" in await text(browser, "#figures")
        assert (await browser.run("document.getElementById('job-count').value")).startswith("1 of 4")
        assert "nothing tells yet what money would buy" in await text(browser, "#frontier-note")
        await choose(browser, "budget", "young")
        await browser.until("document.getElementById('money').innerText === 'Budget young'")
        assert "There is no history yet: what more or less money would buy is not known." in await text(
            browser, "#frontier-note"
        )
        assert browser.problems == []


def family_parts() -> dict[str, Any]:
    """A company that keeps $10,000 of $100,000, with two teams of which one has a job, and a budget of nobody's."""
    world = World()
    world.budget("company", amount="100000")
    world.budget("vision", amount="60000", spent="1200.00", parent="company")
    world.budget("speech", amount="30000", spent="300.00", parent="company")
    world.budget("alone", amount="500", spent="20.00")
    world.pool("a100")
    world.job("vit")
    parts = parts_of(Sighting(seen_of(world), world.now))
    (lane,) = parts["lanes"]
    rows = [{"budget": name, "namespace": name, "dollars": "300", "gpuHours": None} for name in ("vision", "alone")]
    return parts | {lane: dict(parts[lane], budget="vision"), "costs": dict(parts["costs"], costs=rows)}


async def test_the_page_opens_on_all_budgets_and_a_parent_shows_the_sums_of_those_below_it(browser: Browser) -> None:
    cells = "[...row.children].map(it => it.innerText.trim())"
    rows = f"[...document.querySelectorAll('#budget-table tbody tr')].map(row => {cells})"
    async with serving(family_parts()) as (url, _):
        await browser.open(url)
        await browser.until("document.querySelectorAll('#budget-table tbody tr').length === 4")
        assert await text(browser, "#money") == "All budgets"
        figures = await text(browser, "#figures")
        assert "$1,520" in figures
        assert "of $100,500" in figures
        shown = {row[0]: row[2:6] for row in await browser.run(rows)}
        assert list(shown) == ["alone", "company", "speech", "vision"]
        assert shown["company"] == ["$0.00", "$10,000", "$1,500", "$100,000"]
        assert shown["vision"] == ["$1,200", "$60,000", "–", "–"]
        assert await browser.run("document.getElementById('frontier-section').hidden")
        await choose(browser, "budget", "company")
        await browser.until("document.getElementById('money').innerText === 'Budget company and those below it'")
        assert "$1,500" in await text(browser, "#figures")
        assert [row[0] for row in await browser.run(rows)] == ["company", "speech", "vision"]
        assert (await browser.run("document.getElementById('job-count').value")).startswith("1 of 1")
        assert await browser.run("document.getElementById('money-pictures').hidden")  # it spent nothing itself
        costs = await text(browser, "#costs-table")
        assert "vision" in costs
        assert "alone" not in costs
        await choose(browser, "budget", "alone")
        await browser.until("document.getElementById('job-count').value.startsWith('0 of 1')")
        assert await browser.run("document.getElementById('budget-table').hidden")
        assert browser.problems == []


async def test_somebody_who_may_read_one_namespace_sees_jobs_and_no_empty_budget(browser: Browser) -> None:
    now = parse_instant("2026-06-15T08:00:12Z")
    job = seen_job(raw("train", state="Running", gpus=8, cost="4.20"))
    parts = {**own_parts(OwnJobs("vision", (job,), now), (), ["your account may not read it all"]), **NOTHING_MORE}
    async with serving(parts) as (url, _):
        await browser.open(url)
        await browser.until("document.querySelectorAll('#lane-names button').length > 0")
        assert "your account may not read it all" in await text(browser, "#notices")
        hidden = "['money', 'frontier', 'costs'].every(it => document.getElementById(it + '-section').hidden)"
        assert await browser.run(hidden)
        assert "train" in await text(browser, "#lane-names")
        assert browser.problems == []


NASTY = '<img onerror="document.title=1" src=x>'


def nasty_parts() -> dict[str, Any]:
    """Names and sentences that would be markup, scripts or links if anything took them for that."""
    world = World()
    world.budget("research")
    world.pool("a100")
    for name in ("xn--a.b-c", "constructor", "toString", "0-" + "a" * 60):
        made = world.job(name)
        world.jobs[made.id] = replace(made, user=NASTY, invalid=f"{NASTY}<script>document.title=2</script>")
    parts = parts_of(Sighting(seen_of(world), world.now, trouble=NASTY, warnings=[f"{NASTY}&lt;b&gt;"]))
    lane = dict(parts[f"lane:{JobId('constructor')}"], runs=[], state=NASTY, finish=f"{NASTY}'\"`javascript:1")
    lane["runs"] = [
        {"run": 1, "since": lane["created"] - 9e6, "until": lane["created"] - 10, "gpus": 8, "slice": None}
        | {"pool": NASTY, "outcome": "Failed", "message": NASTY, "cost": "1.00"}
    ]
    told: dict[str, Any] = {
        "at": "2026-06-15T00:00:00Z",
        "kind": "TrainingJob",
        "namespace": "team",
        "name": "constructor",
    }
    told |= {"reason": NASTY, "message": NASTY, "warning": True, "count": 1, "dollars": None, "seconds": None}
    costs = dict(parts["costs"], costs=[{"budget": "research", "namespace": NASTY, "dollars": "5", "gpuHours": None}])
    history = {"budgets": {}, "problem": NASTY}
    decisions = [told, dict(told, kind=NASTY, name="__proto__")]
    return parts | {"lane:constructor": lane, "decisions": decisions, "costs": costs, "history": history}


async def test_names_and_messages_that_contain_markup_are_text(browser: Browser) -> None:
    async with serving(nasty_parts()) as (url, _):
        await browser.open(url)
        await browser.until(READY)
        await browser.run("document.getElementById('job-list').open = true")
        row = "[...document.querySelectorAll('#lane-names button')].find(b => b.title === 'team/constructor')"
        await browser.until(f"{row} != null")
        await browser.run(f"{row}.click()")
        await browser.until("!document.getElementById('job').hidden")
        for place in ("#notices", "#job", "#decision-list", "#costs-table", "#pools", "#lane-names"):
            assert NASTY in await text(browser, place), place
        assert await browser.run("document.querySelectorAll('img, main script, b > *').length") == 0
        assert await browser.run("document.title") == "Charterer"
        assert browser.problems == []


async def test_the_policy_stops_code_that_is_not_the_pages_own(browser: Browser) -> None:
    """That the tests above would notice: what the policy forbids is a complaint."""
    async with serving(parts_of(busy_cluster(1))) as (url, _):
        await browser.open(url)
        await browser.until(READY)
        before = list(browser.problems)
        stopped = "(() => { try { document.body.innerHTML = '<b>x'; return 'done'; } catch (e) { return e.name; } })()"
        assert await browser.run(stopped) == "TypeError"
        await browser.run(
            "(() => { const s = document.createElement('div'); s.setAttribute('style', 'color: red');"
            "document.body.append(s); })()"
        )
        await browser.until("true")
        assert await browser.run("document.body.lastChild.style.color") == ""
        assert browser.problems != before
        browser.problems.clear()


async def test_a_page_follows_what_changes_and_says_when_it_cannot(browser: Browser) -> None:
    parts = parts_of(busy_cluster(5))
    async with serving(parts) as (url, board):
        await browser.open(url)
        await browser.until(READY)
        gone = parts["lanes"][0]
        left = {name: part for name, part in parts.items() if name != gone} | {"lanes": parts["lanes"][1:]}
        board.show(encode(left))
        await browser.until("document.getElementById('job-count').value.includes('of 4 jobs')")
        board.show(encode({"problem": "cannot reach the API server"}), whole=False)
        said = "document.getElementById('notices').innerText"
        await browser.until(f"{said}.includes('cannot reach the API server')")
        board.show(encode(left))
        await browser.until(f"!{said}.includes('cannot reach')")
    await browser.until(f"{said}.includes('connection to charterer dashboard is lost')")
    assert await browser.run("document.getElementById('notices').ariaLive") == "polite"
    browser.problems.clear()


async def test_pointing_at_a_run_tells_its_width_time_dollars_and_reason(browser: Browser) -> None:
    parts = parts_of(busy_cluster(1))
    (name,) = parts["lanes"]
    lane = parts[name]
    run = dict(lane["runs"][0], since=lane["created"], until=None, gpus=16, why="16 GPUs save 2 h", cost="12.50")
    async with serving(parts | {name: dict(lane, runs=[run])}) as (url, _):
        await browser.open(url)
        await browser.until(READY)
        await browser.run("document.getElementById('jobs').scrollIntoView()")
        place = await browser.run("document.getElementById('lane-canvas').getBoundingClientRect().toJSON()")
        await browser.send("Input.dispatchMouseEvent", type="mouseMoved", x=place["left"] + 600, y=place["top"] + 20)
        await browser.until("!document.getElementById('tip').hidden")
        said = await text(browser, "#tip")
        assert all(part in said for part in ("16 GPUs", "$12.50", "16 GPUs save 2 h", lane["name"])), said


async def test_a_decision_keeps_the_focus_while_others_come(browser: Browser) -> None:
    parts = parts_of(busy_cluster(20))
    async with serving(parts) as (url, board):
        await browser.open(url)
        await browser.until(READY)
        await browser.run("document.querySelector('#decision-list button').focus()")
        place = "[...document.querySelectorAll('#decision-list li')].indexOf(document.activeElement.closest('li'))"
        before = await browser.run(place)
        told = dict(parts["decisions"][0], reason="News", at="2026-06-16T00:00:09Z")
        board.show(encode({"decisions": [told, *parts["decisions"]]}), whole=False)
        await browser.until("document.querySelector('#decision-list').innerText.includes('News')")
        assert await browser.run(place) == before + 1


async def test_objects_that_cannot_be_used_are_named(browser: Browser) -> None:
    parts = parts_of(busy_cluster(1))
    problem = {"kind": "GPUPool", "namespace": "", "name": "broken", "field": "spec.price", "message": "is no price"}
    parts["plan"] = dict(parts["plan"], problems=[problem] * 7)
    async with serving(parts) as (url, _):
        await browser.open(url)
        await browser.until(READY)
        said = await text(browser, "#actions")
        assert "GPUPool broken: spec.price: is no price" in said
        assert "and 2 more: charterer plan" in said


async def test_jobs_can_be_found_and_read_with_the_keyboard_alone(browser: Browser) -> None:
    async with serving(parts_of(busy_cluster(300))) as (url, _):
        await browser.open(url)
        await browser.until(READY)
        await choose(browser, "which", "all")
        await browser.until("document.getElementById('job-count').value.startsWith('300')")
        await browser.run("document.querySelector('.skip').focus()")
        await browser.press("Enter")
        await browser.until("document.activeElement.id === 'jobs'")
        for control in ("find", "which", "order", "span"):
            await browser.press("Tab")
            assert await browser.run("document.activeElement.id") == control
        place = "document.activeElement.closest('li')?.ariaPosInSet"
        for _ in range(2):  # a browser may stop at the box that scrolls
            await browser.press("Tab")
            if await browser.run(place):
                break
        assert await browser.run(place) == "1"
        await browser.press("ArrowDown")
        await browser.until(f"{place} === '2'")
        await browser.press("End")
        await browser.until(f"{place} === '300'")
        name = await browser.run("document.activeElement.title")
        await browser.press("Enter")
        await browser.until("!document.getElementById('job').hidden")
        assert (await text(browser, "#job-title")).startswith(name)
        assert "charterer explain tj/" in await text(browser, "#job-body")
        await browser.run("document.getElementById('job-close').focus()")
        await browser.press("Enter")
        await browser.until(f"document.getElementById('job').hidden && {place} != null")
        await choose(browser, "find", name.split("/")[1])
        await browser.until("document.getElementById('job-count').value.startsWith('1')")
        assert browser.problems == []


CONTRAST = """(() => {
  const bright = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map((v) => v / 255)
      .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const card = bright(getComputedStyle(document.querySelector("section")).backgroundColor), seen = {};
  for (const it of document.querySelectorAll("h2, dt, dd span, figcaption, th, td, small, summary, li span, button")) {
    const colour = getComputedStyle(it).color, one = bright(colour);
    seen[colour] = (Math.max(one, card) + 0.05) / (Math.min(one, card) + 0.05);
  }
  return seen;
})()"""


@pytest.mark.parametrize("dark", [False, True])
async def test_text_has_contrast_in_light_and_dark(browser: Browser, dark: bool) -> None:
    """At least 4.5 to 1 (WCAG 2.2, success criterion 1.4.3)."""
    async with serving(parts_of(busy_cluster(3))) as (url, _):
        await browser.open(url, dark=dark)
        await browser.until(READY)
        ratios = await browser.run(CONTRAST)
        assert len(ratios) >= 2
        assert {colour: ratio for colour, ratio in ratios.items() if ratio < 4.5} == {}
