"""What a release consists of, and that nothing in it tells where it was built."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from charterer import __version__ as VERSION
from release.build import ROOT, SUMS
from tests.testbed.cache import cache_directory

_KNOWN_TO_ALL = ("pypi.org", "files.pythonhosted.org", "proxy.golang.org", "sum.golang.org", "registry.npmjs.org")


def contents(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """A file, and what is in it where it is an archive, and in those."""
    yield name, content
    if name.endswith((".whl", ".zip")):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for inner in archive.namelist():
                yield from contents(f"{name}!{inner}", archive.read(inner))
    elif name.endswith((".tgz", ".tar.gz", ".tar")):
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            for member in tar:
                yield f"{name}!{member.name}", f"{member.uname} {member.gname}".encode()
                file = tar.extractfile(member) if member.isfile() else None
                if file is not None:
                    yield from contents(f"{name}!{member.name}", file.read())


def sources_of_this_machine() -> set[str]:
    """Hosts and folders from which this machine installs, but for the hosts that everybody uses."""
    said = [value for name, value in os.environ.items() if re.search(r"INDEX|FIND_LINKS|PROXY|REGISTRY|MIRROR", name)]
    for command in ([sys.executable, "-m", "pip", "config", "list"], ["go", "env", "GOPROXY"]):
        if shutil.which(command[0]):
            said.append(subprocess.run(command, capture_output=True, text=True).stdout)
    text = " ".join(said)
    hosts = {urlsplit(address).hostname or "" for address in re.findall(r"https?://[^\s'\",|]+", text)}
    folders = {word for word in text.split() if re.fullmatch(r"/[^/].+", word)}
    return folders | {host for host in hosts if "." in host and host not in _KNOWN_TO_ALL}


def test_all_parts_are_there_but_the_image_which_not_every_machine_can_build(released: Path) -> None:
    files = {str(file.relative_to(released)) for file in released.rglob("*") if file.is_file()}
    assert files - {f"charterer-image-{VERSION}.tar"} == {
        SUMS,
        f"charterer-{VERSION}.cdx.json",
        f"charterer-crds-{VERSION}.yaml",
        f"charterer-site-{VERSION}.tar.gz",
        f"charts/charterer-{VERSION}.tgz",
        f"charts/charterer-crds-{VERSION}.tgz",
        f"packages/charterer/charterer-{VERSION}-py3-none-any.whl",
        f"packages/charterer/charterer-{VERSION}.tar.gz",
        f"packages/charterer-trainer/charterer_trainer-{VERSION}-py3-none-any.whl",
        f"packages/charterer-trainer/charterer_trainer-{VERSION}.tar.gz",
    }


def test_nothing_names_this_checkout_this_machines_folders_or_where_it_installs_from(released: Path) -> None:
    own = {str(ROOT), str(cache_directory()), f"{tempfile.gettempdir()}/tmp", *sources_of_this_machine()}
    forbidden = re.compile(b"|".join(re.escape(each.encode()) for each in sorted(own)))
    looked, found = 0, {}
    for file in sorted(released.rglob("*")):
        if file.is_file():
            for name, content in contents(file.name, file.read_bytes()):
                looked += 1
                if (told := forbidden.search(content)) is not None:
                    found[name] = told[0]
    assert found == {}
    assert looked > 1000


def test_a_path_of_this_checkout_is_found_in_an_archive_in_an_archive() -> None:
    inner, outer = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("RECORD", f"file://{ROOT}/x")
    with tarfile.open(fileobj=outer, mode="w:gz") as tar:
        member = tarfile.TarInfo("dist/a.whl")
        member.size = len(inner.getvalue())
        tar.addfile(member, io.BytesIO(inner.getvalue()))
    named = [name for name, content in contents("all.tar.gz", outer.getvalue()) if str(ROOT).encode() in content]
    assert named == ["all.tar.gz!dist/a.whl!RECORD"]


def test_the_source_archive_has_what_a_wheel_is_built_from_and_no_tests(released: Path) -> None:
    with tarfile.open(released / f"packages/charterer/charterer-{VERSION}.tar.gz") as tar:
        top = {name.split("/")[1] for name in tar.getnames()}
    assert top == {
        "operator",
        "CHANGELOG.md",
        "LICENSE",
        "NOTICE",
        "README.md",
        "pyproject.toml",
        "PKG-INFO",
        ".gitignore",
    }


@pytest.mark.parametrize("package", ["charterer", "charterer-trainer"])
def test_each_archive_of_a_package_has_its_licence_and_a_page_whose_links_lead_somewhere_from_an_index(
    released: Path, package: str
) -> None:
    folder, name = released / "packages" / package, f"{package.replace('-', '_')}-{VERSION}"
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl") as wheel:
        told = [wheel.read(f"{name}.dist-info/METADATA")]
        licences = [wheel.read(f"{name}.dist-info/licenses/LICENSE")]
    with tarfile.open(folder / f"{name}.tar.gz") as tar:
        told += [member(tar, f"{name}/{file}") for file in ("PKG-INFO", "README.md")]
        licences.append(member(tar, f"{name}/LICENSE"))
    assert licences == 2 * [(ROOT / "LICENSE").read_bytes()]
    for page in told:
        assert f"# {package}".encode() in page.lower()
        links = re.findall(rb"\]\(([^)]*)\)", page)
        assert [link for link in links if not link.startswith(b"https://")] == []


def member(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    assert file is not None
    return file.read()


def test_the_definitions_are_those_of_the_chart(released: Path) -> None:
    plain = yaml.safe_load_all((released / f"charterer-crds-{VERSION}.yaml").read_text())
    with tarfile.open(released / f"charts/charterer-crds-{VERSION}.tgz") as tar:
        files = [tar.extractfile(member) for member in tar if "/templates/" in member.name]
        charted = [yaml.safe_load(file.read().decode()) for file in files if file is not None]
    by_name = {each["metadata"]["name"]: each["spec"] for each in charted}
    assert {each["metadata"]["name"]: each["spec"] for each in plain} == by_name


def test_the_bill_of_materials_names_each_locked_package_with_its_version(released: Path) -> None:
    bill = json.loads((released / f"charterer-{VERSION}.cdx.json").read_text())
    assert (bill["metadata"]["component"]["name"], bill["bomFormat"]) == ("charterer", "CycloneDX")
    named = {f"{each['name'].lower().replace('_', '-')}=={each['version']}" for each in bill["components"]}
    locked = set(re.findall(r"^(\S+==[^\s;]+)(?= \\$)", (ROOT / "requirements/runtime.txt").read_text(), re.MULTILINE))
    assert len(locked) > 30
    assert locked <= named
