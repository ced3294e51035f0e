"""Container images for real nodes, made without Docker and imported without a registry.

The sandbox image has only the program pause. The training image is an empty root file system. Pods mount the machine's
/usr, the interpreter and the packages read-only by hostPath (``training_pods``), so the image needs no content.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PAUSE = "localhost/pause:1"
TRAIN = "localhost/train:1"
_PASSWD = "root:x:0:0:root:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n"


@dataclass(frozen=True, slots=True)
class Image:
    """An image. ``name`` includes the tag. The folder ``root`` becomes its only layer, owned by root."""

    name: str
    root: Path
    entrypoint: Sequence[str]


def base_images(directory: Path, pause: Path) -> Path:
    """Write an archive of the two images that every node has into ``directory``."""
    sandbox, training = directory / "pause", directory / "train"
    sandbox.mkdir(parents=True)
    shutil.copy(pause, sandbox / "pause")
    for name in ("usr", "tmp", "etc", "proc", "sys", "dev"):
        (training / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (training / name).symlink_to(f"usr/{name}")
    (training / "etc/passwd").write_text(_PASSWD)
    (training / "etc/nsswitch.conf").write_text("hosts: files dns\n")
    archive = directory / "images.tar"
    write_archive(archive, Image(PAUSE, sandbox, ["/pause"]), Image(TRAIN, training, ["/bin/sh"]))
    return archive


def write_archive(archive: Path, *images: Image) -> None:
    """Write the images in the format of ``docker save``, which ``ctr images import`` reads."""
    manifest = []
    with tarfile.open(archive, "w") as out:
        for number, image in enumerate(images):
            layer = archive.with_suffix(f".{number}")
            with tarfile.open(layer, "w") as content:
                for path in sorted(image.root.rglob("*")):
                    content.add(path, str(path.relative_to(image.root)), recursive=False, filter=_owned_by_root)
            config = _config(image, layer)
            manifest.append({"Config": f"{number}.json", "RepoTags": [image.name], "Layers": [f"{number}.tar"]})
            _add(out, f"{number}.json", config)
            out.add(layer, f"{number}.tar")
            layer.unlink()
        _add(out, "manifest.json", manifest)


def _config(image: Image, layer: Path) -> object:
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": list(image.entrypoint), "WorkingDir": "/tmp"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }


def _owned_by_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    return info


def _add(out: tarfile.TarFile, name: str, content: object) -> None:
    data = json.dumps(content).encode()
    info = tarfile.TarInfo(name)
    info.size = len(data)
    out.addfile(info, io.BytesIO(data))
