"""The bed: a control plane with the charts installed, a fake cloud and operators, and how every such test ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests import outcome
from tests.cluster.crd_cases import install_crds
from tests.testbed.aws_bed import AwsBed, open_aws_bed
from tests.testbed.azure_bed import AzureBed, open_azure_bed
from tests.testbed.bed import Bed, dismantle, group, install_charts, make_bed
from tests.testbed.controlplane import ControlPlane
from tests.testbed.gcp_bed import GcpBed, open_gcp_bed
from tests.testbed.karpenter_bed import KarpenterBed, clear_claims, make_karpenter_bed
from tests.testbed.karpenter_process import KarpenterProcess
from tests.testbed.kueue.process import KueueProcess


@pytest.fixture(scope="session")
def installed(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with Charterer's charts."""
    install_charts(control_plane)
    return control_plane


@pytest.fixture(scope="session")
def api(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with Charterer's custom resources."""
    return install_crds(control_plane)


@pytest.fixture(scope="module")
def with_kueue(control_plane: ControlPlane, kueue: KueueProcess) -> ControlPlane:
    """The control plane with Kueue and Charterer's check."""
    install_charts(control_plane, "kueue.enabled=true")
    return control_plane


@pytest.fixture
async def bed(installed: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Bed]:
    """A bed; ``@pytest.mark.groups(group(...), ...)`` says what its cloud sells, one group ``a100`` by default."""
    marker = request.node.get_closest_marker("groups")
    made = await make_bed(installed, tmp_path, marker.args if marker else (group("a100"),))
    try:
        yield made
        if not outcome.failed(request.node):
            await made.close()
    finally:
        await dismantle(made)


@pytest.fixture
async def karpenter_bed(
    karpenter: KarpenterProcess, installed: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[KarpenterBed]:
    """A bed whose nodes come from Karpenter."""
    made = await make_karpenter_bed(installed, tmp_path, karpenter)
    try:
        yield made
        if not outcome.failed(request.node):
            await made.close()
    finally:
        await clear_claims(made)
        await dismantle(made)


@pytest.fixture
async def aws_bed(installed: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[AwsBed]:
    """A bed whose nodes come from AWS."""
    async with open_aws_bed(installed, tmp_path) as made:
        yield made
        if not outcome.failed(request.node):
            await made.close()


@pytest.fixture
async def azure_bed(installed: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[AzureBed]:
    """A bed whose nodes come from Azure."""
    async with open_azure_bed(installed, tmp_path) as made:
        yield made
        if not outcome.failed(request.node):
            await made.close()


@pytest.fixture
async def gcp_bed(installed: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[GcpBed]:
    """A bed whose nodes come from Google Cloud."""
    async with open_gcp_bed(installed, tmp_path) as made:
        yield made
        if not outcome.failed(request.node):
            await made.close()
