"""Files that are not what a command expects: each is one sentence, whatever is in it, and no command waits for ever."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from charterer import bounded_yaml
from charterer.cli.main import main
from charterer.tools.commands.shared import files as shared_files
from charterer.tools.commands.shared.files import documents
from charterer.tools.fakecloud.config import read_yaml
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World

_OBJECT = "apiVersion: charterer.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: x}\n"
_TIMES = "[" + ",".join(["*%s"] * 10) + "]"
_BOMB = _OBJECT + "spec:\n  a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
_BOMB += "".join(f"  a{n}: &a{n} {_TIMES % ((f'a{n - 1}',) * 10)}\n" for n in range(1, 10))
_CSV = "submitted,gpus,duration\n"
HOSTILE: Mapping[str, bytes] = {
    "bomb": _BOMB.encode(),
    "cycle": (_OBJECT + "spec: &s {template: *s}\n").encode(),
    "list in itself": b"kind: List\nitems: &a [{kind: List, items: *a}]\n",
    "deep": b"[" * 20_000,
    "deep object": b'{"apiVersion":"charterer.dev/v1alpha1","kind":"TrainingJob","spec":' + b'{"a":' * 3000 + b"1",
    "long number": (_OBJECT + f"spec: {{gpus: {'9' * 6000}}}\n").encode(),
    "infinite": (_OBJECT + "spec: {gpus: .inf}\n").encode(),
    "other types": b"apiVersion: [1]\nkind: {a: 1}\nmetadata: [x]\nspec: 7\n",
    "types within": (_OBJECT + "spec: {gpus: [1], template: 7, maxCost: {a: 1}, variants: true}\n").encode(),
    "a date that is none in quotes": (_OBJECT + "spec: {maxRestarts: '2026-99-99'}\n").encode(),
    "a long number in quotes": (_OBJECT + f"spec: {{maxRestarts: '{'9' * 6000}'}}\n").encode(),
    "depth in quotes": (_OBJECT + f"spec: {{gpus: '{'[' * 5000}'}}\n").encode(),
    "keys": b"? [1, 2]\n: x\n",
    "code": b"a: !!python/object/apply:os.system ['id']\n",
    "binary": b"apiVersion: v1\nkind: !!binary aGFsbG8=\n",
    "controls": b"a: \x00\x07\n",
    "escapes": b'apiVersion: charterer.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: "x\\e[31m\\a"}\nspec: {}\n',
    "gzip": gzip.compress(b"x" * 100),
    "latin": b"caf\xe9,b\n1,2\n",
    "utf-16": "submitted,gpus,duration\n0,8,60\n".encode("utf-16"),
    "nul": _CSV.encode() + b"\x00,\x00,\x00\n",
    "long number of a table": _CSV.encode() + b"0,8," + b"9" * 5000 + b"\n",
    "infinite duration": _CSV.encode() + b"0,8,1e400\n",
    "no numbers": _CSV.encode() + b"nan,nan,nan\n",
    "too many GPUs": _CSV.encode() + b"0,1e300,60\n",
    "open quote": _CSV.encode() + b'0,60,"8\n' + b"x" * 200_000,
    "controls in a table": _CSV.encode() + b"\x1b[31m,8,60\n",
    "words": b"just words\n",
}
Call = Callable[..., Result]


@pytest.fixture
def charterer(monkeypatch: pytest.MonkeyPatch) -> Call:
    world = World()
    world.budget()
    world.pool("a100")
    return charterer_over(world, monkeypatch)


def is_one_sentence(done: Result) -> None:
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == 1, done.output
    assert done.stdout == ""
    said = done.stderr.removesuffix("\n")
    assert said.splitlines()[-1].startswith("Error: "), said
    assert len(said) < 1_000
    assert said.replace("\n", "").isprintable(), said


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("command", ["plan", "predict"])
def test_a_manifest_that_is_none_is_one_sentence(command: str, content: bytes, tmp_path: Path, charterer: Call) -> None:
    file = tmp_path / "given"
    file.write_bytes(content)
    is_one_sentence(charterer(command, "-f", str(file)))


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("option", ["", "--speeds", "--pools", "--pairs"])
def test_a_table_that_is_none_is_one_sentence(option: str, content: bytes, tmp_path: Path) -> None:
    given, good = tmp_path / "given", tmp_path / "good.csv"
    given.write_bytes(content)
    good.write_text(f"{_CSV}0,8,60\n")
    files = [str(good), option, str(given)] if option else [str(given)]
    is_one_sentence(CliRunner().invoke(main, ["simulate", *files, "--policy", "as-asked"]))


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_bill_that_is_none_is_one_sentence(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "record").mkdir()
    file = tmp_path / "given"
    file.write_bytes(content)
    is_one_sentence(CliRunner().invoke(main, ["bill", str(file), "--record", str(tmp_path / "record")]))


@pytest.mark.parametrize("kind", ["empty", "folder", "link", "zeros", "absent", "large"])
def test_what_is_no_file_or_has_no_end_is_one_sentence(
    kind: str, tmp_path: Path, charterer: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_files, "MOST_BYTES", 1_000_000)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "link")
    (tmp_path / "empty").touch()
    (tmp_path / "large").write_bytes(b"#" * 1_000_001)
    file = "/dev/zero" if kind == "zeros" else str(tmp_path / kind)
    if kind != "empty":  # no object is no mistake: `kustomize build` may print none
        is_one_sentence(charterer("plan", "-f", file))
        is_one_sentence(charterer("predict", "-f", file))
    is_one_sentence(CliRunner().invoke(main, ["simulate", file]))
    (tmp_path / "record").mkdir()
    is_one_sentence(CliRunner().invoke(main, ["bill", file, "--record", str(tmp_path / "record")]))


def test_a_pipe_that_says_nothing_is_given_up_and_one_that_is_written_is_read(
    tmp_path: Path, charterer: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setattr(shared_files, "SILENT_SECONDS", 0.05)
    for done in (charterer("plan", "-f", str(pipe)), CliRunner().invoke(main, ["simulate", str(pipe)])):
        is_one_sentence(done)
        assert "says nothing" in done.stderr
    monkeypatch.setattr(shared_files, "SILENT_SECONDS", 60.0)
    text = "a: 1\n" * 100_000
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    assert shared_files.read_text(pipe) == text
    writer.join()


def test_yaml_is_read_as_kubectl_reads_it() -> None:
    text = "{at: 22:00, day: 2026-12-01, when: 2026-12-01T00:00:00Z, few: 1e3, old: 010, hex: 0x1F, on: on, 7: x, n: ~}"
    assert documents("f", text) == [
        {"at": "22:00", "day": "2026-12-01", "when": "2026-12-01T00:00:00Z", "few": 1000.0, "old": 8, "hex": 31}
        | {"true": True, "7": "x", "n": None}
    ]
    assert documents("f", "a: &x {b: [1]}\nc: *x\n---\n- 1.5\n- -.5\n- 12:30:45.5") == [
        {"a": {"b": [1]}, "c": {"b": [1]}},
        [1.5, -0.5, "12:30:45.5"],
    ]


def _manifest(file: Path) -> object:
    return documents(file.name, file.read_text())


@pytest.mark.parametrize("read", [read_yaml, _manifest])
def test_merges_of_merges_are_counted(
    read: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_yaml, "MOST_VALUES", 20)
    file = tmp_path / "file.yaml"
    file.write_text("a: &a {x: 1}\nb: &b\n  <<: [*a, *a]\n")
    read(file)
    file.write_text("a: &a {x: 1}\nb: &b\n  <<: [*a, *a, *a, *a]\nc:\n  <<: [*b, *b, *b, *b]\n")
    with pytest.raises((click.ClickException, ValueError), match="more than 20 values"):
        read(file)
