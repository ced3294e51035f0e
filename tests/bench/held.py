"""What answers cost that wait for a change of their run's members (``server.http``), over TLS as pods ask.

    python -m tests.bench.held [--answers 2000]

Memory of the server for each of them with its connection; milliseconds that one turn of the loop spends on all of
them; and the time from a change until the last of them has its answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic, perf_counter

from charterer.domain.ids import JobId
from charterer.domain.time import Instant
from charterer.server.http import PROGRESS_CONNECTIONS, HeldAnswers, progress_app, serve
from charterer.server.progress import CurrentRun, Members, ProgressBoard, ProgressReport
from charterer.server.tls import StoredSecret, ensure_tls
from charterer.server.tokens import Authenticator
from tests.unit.server.support import ALLOCATION, Directory, Reviewer, bearer, token


class _Silent:
    """Has no opinion on batch sizes."""

    def handle_report(self, job_id: JobId, run: int, report: ProgressReport, at: Instant) -> int | None:
        return None


def _megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _job(number: int) -> JobId:
    return JobId(f"job-{number}")


async def _clients(port: int, authority: str, answers: int, pipe: Connection) -> None:
    tls = ssl.create_default_context(cadata=authority)
    readers = []
    for number in range(answers):
        pod = f"127.1.{number // 200}.{number % 200 + 1}"  # each pod has an address of its own
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=tls, server_hostname="localhost", local_addr=(pod, 0)
        )
        body = json.dumps({"waitGeneration": 1}).encode()
        credentials = bearer(token(job=_job(number), pod_uid=f"pod-{number}"))
        head = f"POST /v1/progress HTTP/1.1\r\nHost: localhost\r\nAuthorization: {credentials}\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        readers.append((reader, writer))
    for reader, _ in readers:
        await reader.readuntil(b"}}")
    pipe.send(monotonic())


def _play(port: int, authority: str, answers: int, pipe: Connection) -> None:
    asyncio.run(_clients(port, authority, answers, pipe))


async def _all_wait(held: HeldAnswers, answers: int) -> None:
    while True:
        if len(held) == answers:
            return
        await asyncio.sleep(0.1)


async def _measure(answers: int) -> None:
    directory = Directory({})
    generation = 1

    def run_of(number: int) -> CurrentRun:
        members = Members(generation, (0,), ("sft-r2-0.sft.research.svc",), "key")
        return CurrentRun(2, frozenset({f"pod-{number}"}), ALLOCATION, stopping=False, members=members)

    for number in range(answers):
        directory.runs[_job(number)] = run_of(number)

    def generation_of(job: JobId) -> int | None:
        run = directory.find(job)
        return None if run is None or run.members is None else run.members.generation

    async def load() -> StoredSecret | None:
        return None

    async def save(data: Mapping[str, bytes], resource_version: str | None) -> bool:
        return True

    material = await ensure_tls(load, save, ["localhost"], datetime.now(UTC))
    held = HeldAnswers(generation_of, seconds=600.0, most=answers)
    authenticator = Authenticator(Reviewer(), directory)
    app = progress_app(authenticator, directory, ProgressBoard(), lambda: Instant(0), _Silent(), held)
    site = await serve(app, "127.0.0.1", 0, material.server_context(), limits=PROGRESS_CONNECTIONS)
    ours, theirs = multiprocessing.Pipe()
    client = multiprocessing.get_context("spawn").Process(
        target=_play, args=(site.port, material.ca_pem, answers, theirs)
    )
    before = _megabytes()
    client.start()
    await _all_wait(held, answers)
    waiting = _megabytes()
    began = perf_counter()
    held.look()
    look = perf_counter() - began
    generation = 2
    for number in range(answers):
        directory.runs[_job(number)] = run_of(number)
    changed = monotonic()
    held.look()
    answered = await asyncio.to_thread(ours.recv)
    print(
        f"{answers} answers wait: {(waiting - before) / answers * 1000:.0f} kB each with its connection; a look takes "
        f"{look * 1000:.2f} ms; all are answered {answered - changed:.2f} s after a change of all"
    )
    client.join()
    await site.close()


def main() -> None:
    """Measures once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=2000)
    asyncio.run(_measure(parser.parse_args().answers))


if __name__ == "__main__":
    main()
