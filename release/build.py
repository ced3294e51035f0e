"""Builds all that a release publishes into ``out/release``: ``make release``.

What is built twice of one commit is the same, byte for byte, but for the image: times are those of the commit, and
order and names do not depend on the machine. A part that this machine cannot build is told in a line, and left out.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.testbed import build, cache

ROOT: Final = Path(__file__).resolve().parents[1]
OUT: Final = ROOT / "out/release"
CHARTS: Final = ("charterer", "charterer-crds")
PACKAGES: Final = {"charterer": "", "charterer-trainer": "trainer"}
"""The folder in the repository of each package."""
SUMS: Final = "SHA256SUMS"
_VERSION: Final = re.compile(r'^__version__ = "(.+)"$|^version: (\S+)$|^appVersion: (\S+)$', re.MULTILINE)
_TARGET: Final = re.compile(r"(?<=\]\()[^)\s]+(?=\))")
_IMAGE: Final = re.compile(r"!\[[^\]]*\]\((?!\w+://)[^)]*\)")
_LINK: Final = re.compile(r"\[([^\]]*)\]\((?!\w+://)[^)]*\)")
_VERSIONED: Final = (
    "operator/charterer/__init__.py",
    "trainer/src/charterer_trainer/__init__.py",
    *(f"charts/{chart}/Chart.yaml" for chart in CHARTS),
)


class CannotBuild(Exception):
    """A part cannot be built here; the message says why."""


@dataclass(frozen=True, slots=True)
class Release:
    """``when``: the time of the commit, in seconds since 1970. ``image`` and ``digest``: the published image, which the
    charts then have as their default; ``repository``: the address of the sources. Empty where nothing is published."""

    version: str
    when: int
    image: str = ""
    digest: str = ""
    repository: str = ""


def version_of(root: Path) -> str:
    """The version that both packages and both charts have; CannotBuild where they differ."""
    found = [each for file in _VERSIONED for each in _VERSION.finditer((root / file).read_text())]
    said = {str(each[each.lastindex or 0]) for each in found}
    if len(said) != 1:
        raise CannotBuild(f"{', '.join(_VERSIONED)} have the versions {', '.join(sorted(said))}: give them the same")
    return said.pop()


def packed(files: Mapping[str, bytes], when: int) -> bytes:
    """A .tar.gz of these files: the same for the same files, whoever makes it, and whenever."""
    whole = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=whole, mode="wb", mtime=when) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), when
            tar.addfile(member, io.BytesIO(content))
    return whole.getvalue()


def files_in(folder: Path, under: str) -> Mapping[str, bytes]:
    """The files of a folder by their paths in it, after ``under/``."""
    return {f"{under}/{each.relative_to(folder)}": each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def sums(folder: Path) -> str:
    """What ``sha256sum --check`` reads, of all files below the folder."""
    names = sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file() and each.name != SUMS)
    return "".join(f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names)


def address(charts: Path, release: Release) -> None:
    """Write into the charts where their sources and their image are, as far as that is known."""
    if release.image:
        values = charts / "charterer/values.yaml"
        text = values.read_text()
        for before, after in (
            ("  repository: charterer\n", f"  repository: {release.image}\n"),
            ('  digest: ""\n', f"  digest: {release.digest}\n"),
        ):
            if text.count(before) != 1:
                raise CannotBuild(
                    f"{values} has the line {before.strip()} {text.count(before)} times, and once is expected"
                )
            text = text.replace(before, after)
        values.write_text(text)
    if release.repository:
        icon = f"{release.repository}/raw/v{release.version}/docs/images/icon.svg"
        for chart in CHARTS:
            with (charts / chart / "Chart.yaml").open("a") as file:
                file.write(f"home: {release.repository}\nsources: [{release.repository}]\nicon: {icon}\n")


def read_alone(text: str, page: str, release: Release) -> str:
    """The text of a page as a package index shows it, where a relative link leads nowhere: each leads to the repository
    at the tag of the version. While that has no address, a link becomes its text, and an image is left out."""

    def addressed(found: re.Match[str]) -> str:
        link = found[0]
        if "://" in link:
            return link
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
        shown = "raw" if path.endswith((".png", ".svg")) else "blob"
        return f"{release.repository}/{shown}/v{release.version}/{path}"

    return _TARGET.sub(addressed, text) if release.repository else _LINK.sub(r"\1", _IMAGE.sub("", text))


# The parts. Each writes its files below ``OUT``.


def packages(release: Release) -> None:
    """Wheel and source archive of each package."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(release.when)}
    for name, folder in PACKAGES.items():
        with tempfile.TemporaryDirectory() as copy:
            for file in _git("ls-files", "-z", f"./{folder}").rstrip("\0").split("\0"):
                target = Path(copy, file)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / file, target)
            readme = posixpath.join(folder, "README.md")
            Path(copy, readme).write_text(read_alone((ROOT / readme).read_text(), readme, release))
            into = str(OUT / "packages" / name)
            _run([sys.executable, "-m", "hatchling", "build", "--directory", into], Path(copy, folder), environment)


def charts(release: Release) -> None:
    """Both charts as helm packages them, with the commit's times."""
    helm = str(_helm())
    into = OUT / "charts"
    into.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "charts")
        shutil.copytree(ROOT / "charts", copy)
        address(copy, release)
        for chart in CHARTS:
            _run([helm, "package", "--destination", folder, str(copy / chart)])
            made = f"{chart}-{release.version}.tgz"
            with tarfile.open(Path(folder, made)) as tar:
                files = {each.name: tar.extractfile(each).read() for each in tar if each.isfile()}  # type: ignore[union-attr]
            (into / made).write_bytes(packed(files, release.when))


def definitions(release: Release) -> None:
    """The CRDs, for whoever applies them without helm."""
    texts = [file.read_text().removeprefix("---\n") for file in sorted((ROOT / "crds").glob("*.yaml"))]
    (OUT / f"charterer-crds-{release.version}.yaml").write_text("---\n".join(texts))


def materials(release: Release) -> None:
    """The bill of materials of what the image has of Python."""
    _run(["make", "--no-print-directory", "sbom"])
    shutil.copyfile(ROOT / "out/sbom.json", OUT / f"charterer-{release.version}.cdx.json")


def site(release: Release) -> None:
    """The pages."""
    _run(["make", "--no-print-directory", "docs"], ROOT, {**os.environ, "SOURCE_DATE_EPOCH": str(release.when)})
    folder = f"charterer-site-{release.version}"
    (OUT / f"{folder}.tar.gz").write_bytes(packed(files_in(ROOT / "out/site", folder), release.when))


def image(release: Release) -> None:
    """The image of this machine's platform, as `docker load` takes it, where a release does not publish one itself."""
    if release.image:
        return
    file = OUT / f"charterer-image-{release.version}.tar"
    _run(["make", "--no-print-directory", "image", f"IMAGE=charterer:{release.version}", f"SAVE={file}"])


PARTS: Final[Mapping[str, Callable[[Release], None]]] = {
    "packages": packages,
    "charts": charts,
    "CRDs": definitions,
    "bill of materials": materials,
    "site": site,
    "image": image,
}


def _helm() -> Path:
    """The test bed's helm, which is fetched or built where it is not there."""
    (target,) = [target for target in build.targets() if target.name == "helm"]
    for thing in build.lacking([target], _say):
        cache.ensure(thing, _say)
    found = build.find("helm", target)
    if found is None:
        raise CannotBuild("there is no helm: run `make testbed`")
    return found


def _run(command: Sequence[str], folder: Path = ROOT, environment: Mapping[str, str] | None = None) -> None:
    """Run a program; CannotBuild with the last line of what it says if it fails."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        said = [
            line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip() and "make: ***" not in line
        ]
        raise CannotBuild(f"{' '.join(command[:3])} failed: {said[-1] if said else done.returncode}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    """Builds, and says what and what not."""
    parser = argparse.ArgumentParser(prog="python -m release.build", description=__doc__.split("\n")[0])
    parser.add_argument("--image", default="", help="the published image, which the charts then have as their default")
    parser.add_argument("--digest", default="", help="its digest")
    parser.add_argument("--repository", default="", help="the address of the sources, for the charts")
    parser.add_argument("--complete", action="store_true", help="fail if a part cannot be built")
    given = parser.parse_args()
    if bool(given.image) != bool(given.digest):
        parser.error("--image and --digest belong together")
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    when = int(_git("log", "-1", "--format=%ct"))
    release = Release(version_of(ROOT), when, given.image, given.digest, given.repository)
    lacking = 0
    for name, part in PARTS.items():
        try:
            part(release)
        except (CannotBuild, cache.BuildError) as error:
            lacking += 1
            print(f"{name}: not built: {error}", flush=True)
        else:
            print(f"{name}: built", flush=True)
    (OUT / SUMS).write_text(sums(OUT))
    changed = ", with changes that are not committed" if _git("status", "--porcelain") else ""
    commit = f"{_git('rev-parse', '--short', 'HEAD')}{changed}"
    print(f"\n{OUT.relative_to(ROOT)}, version {release.version}, commit {commit}:")
    for line in (OUT / SUMS).read_text().splitlines():
        digest, name = line.split("  ")
        print(f"  {digest[:12]}  {(OUT / name).stat().st_size:>11,}  {name}")
    return 1 if lacking and given.complete else 0


if __name__ == "__main__":
    sys.exit(main())
