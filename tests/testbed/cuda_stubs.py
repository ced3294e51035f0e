"""Stand-ins for NVIDIA's libraries, which PyPI's build of torch is linked with and which no CPU uses.

For every shared library that one of torch's own needs and that neither torch nor the system has, ``write`` compiles one
that defines the symbols which torch looks for, under the versions it looks for. Each function answers 100,
cudaErrorNoDevice, or a text where one is expected. Then ``torch.cuda.is_available()`` is False, and autograd,
DistributedDataParallel and gloo work as everywhere. Needs gcc and readelf.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.testbed.cache import BuildError

_SYSTEM = re.compile(r"(?:lib(?:c|m|dl|rt|pthread|stdc\+\+|gcc_s|z|quadmath)[.-]|ld-linux)")
_OURS = re.compile(r"_*cu|nv|nccl")
"""Names of symbols without a version that CUDA's libraries would define."""
_TEXT = re.compile(r"(?:Error|Status)(?:String|Name)|get_error_string|LastErrorString|ErrorText", re.IGNORECASE)
"""Functions whose result is a C string."""

Versions = Mapping[str, set[str]]
"""Symbols by the version under which they are looked for; "" is none."""


def write(torch: Path) -> None:
    """Write the stubs into the folder ``lib`` of an installed package torch; BuildError when a tool fails or lacks."""
    libraries = [*sorted(torch.glob("lib/*.so*")), *sorted(torch.glob("_C*.so"))]
    own = {path.name for path in libraries}
    absent = {name for path in libraries for name in _needed(path) if name not in own and not _SYSTEM.match(name)}
    stubs: dict[str, dict[str, set[str]]] = {name: {} for name in absent}
    defined: set[str] = set()
    loose: set[str] = set()
    for path in libraries:
        origins = dict(_origins(path))
        for symbol, version, undefined, weak in _symbols(path):
            if not undefined:
                defined.add(symbol)
            elif origins.get(version) in absent:
                stubs[origins[version]].setdefault(version, set()).add(symbol)
            elif not version and not weak and _OURS.match(symbol):
                loose.add(symbol)
    for number, name in enumerate(sorted(absent)):
        versions = stubs[name]
        if number == 0:  # the loader looks for a symbol without a version in every library
            versions[""] = loose - defined
        _compile(torch / "lib" / name, versions)


def _needed(path: Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.+)\]", _run("readelf", "--dynamic", "--wide", str(path)))


def _origins(path: Path) -> Iterator[tuple[str, str]]:
    """Pairs of a version and the library in which it is looked for."""
    _, _, needs = _run("readelf", "--version-info", "--wide", str(path)).partition("Version needs section")
    library = ""
    for line in needs.splitlines():
        if found := re.search(r" File: (\S+)", line):
            library = found[1]
        elif found := re.search(r" Name: (\S+) ", line):
            yield found[1], library


def _symbols(path: Path) -> Iterator[tuple[str, str, bool, bool]]:
    """Dynamic symbols: name, version, whether undefined, whether weak."""
    for line in _run("readelf", "--dyn-syms", "--wide", str(path)).splitlines():
        words = line.split()
        if len(words) >= 8 and words[0].rstrip(":").isdigit():
            name, _, version = words[7].partition("@")
            yield name, version.lstrip("@"), words[6] == "UND", words[4] == "WEAK"


def _compile(library: Path, versions: Versions) -> None:
    functions = (
        f'const char *{name}(void) {{ return "no CUDA"; }}'
        if _TEXT.search(name)
        else f"long {name}(void) {{ return 100; }}"
        for name in sorted(set().union(*versions.values()))
    )
    script = "".join(
        f"{version} {{ global: {' '.join(f'{name};' for name in sorted(names))} }};\n"
        for version, names in sorted(versions.items())
        if version
    )
    with tempfile.TemporaryDirectory() as folder:
        source, exports = Path(folder, "stub.c"), Path(folder, "stub.map")
        source.write_text("\n".join([*functions, "int charterer_stub;\n"]))
        exports.write_text(script)
        flags = ["-w", "-shared", "-fPIC", "-O0", "-fno-builtin", f"-Wl,-soname,{library.name}"]
        versioned = [f"-Wl,--version-script={exports}"] if script else []
        _run("gcc", *flags, *versioned, "-o", str(library), str(source))


def _run(*command: str) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError as error:
        raise BuildError(f"{command[0]} is not there: install gcc and binutils, then repeat") from error
    except subprocess.CalledProcessError as error:
        raise BuildError(f"{command[0]}: {error.stderr.strip()[-800:]}") from error
