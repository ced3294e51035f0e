"""A script that is resized in place says at once when it was started in a way that cannot work."""

from __future__ import annotations

import pytest

from charterer_trainer.inplace.launch import check_launch


@pytest.mark.parametrize(
    ("environ", "devices", "why"),
    [
        ({"TORCHELASTIC_RUN_ID": "none"}, 1, "instead of torchrun"),
        ({"LOCAL_WORLD_SIZE": "2"}, None, "one process per pod"),
        ({"PET_NPROC_PER_NODE": "4"}, 1, "this pod has 4 GPUs"),
    ],
)
def test_a_start_that_cannot_work_is_refused(environ: dict[str, str], devices: int | None, why: str) -> None:
    with pytest.raises(RuntimeError, match=why):
        check_launch(environ, devices)


@pytest.mark.parametrize(
    ("environ", "devices"),
    [
        ({}, 1),
        ({"PET_NPROC_PER_NODE": "1", "LOCAL_WORLD_SIZE": "1"}, 1),
        ({"PET_NPROC_PER_NODE": "4"}, 4),
        ({"PET_NPROC_PER_NODE": "4"}, None),
    ],
)
def test_one_process_for_all_of_a_pods_gpus_is_right(environ: dict[str, str], devices: int | None) -> None:
    check_launch(environ, devices)
