"""Real nodes for tests with the marks ``support.REAL_NODES``: containers that train, resized by the operator.

One worker of pytest-xdist runs all of them, on one cluster, which the first opens and which is closed after the last.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import awaited, outcome
from tests.testbed import node_programs
from tests.testbed.bed import group
from tests.testbed.frameworks import JAX, JUPYTER, TORCH, Framework
from tests.testbed.real_bed import RealBed, RealCluster, open_cluster, open_real_bed

MARK = "real_nodes"
_SHARED = pytest.StashKey[tuple[ExitStack, RealCluster]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Close the cluster when the next test does not need it."""
    yield
    if nextitem is None or nextitem.get_closest_marker(MARK) is None:
        close_cluster(item.session)


def close_cluster(session: pytest.Session) -> None:
    """Switch all nodes off, if there are any; the next test gets a new cluster."""
    if _SHARED in session.stash:
        stack, _ = session.stash[_SHARED]
        del session.stash[_SHARED]
        stack.close()


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RealCluster:
    """A cluster for real nodes; a test that wants it is skipped where there cannot be one."""
    awaited.present("nodes", node_programs.missing)
    session = request.session
    if _SHARED not in session.stash:
        stack = ExitStack()
        session.stash[_SHARED] = (stack, stack.enter_context(open_cluster(tmp_path_factory.mktemp("cluster"))))
    return session.stash[_SHARED][1]


@pytest.fixture
def no_cluster(request: pytest.FixtureRequest) -> None:
    """This process has no real nodes; a test that wants that is skipped where there cannot be any."""
    awaited.present("nodes", node_programs.missing)
    close_cluster(request.session)


@pytest.fixture
async def real_bed(cluster: RealCluster, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[RealBed]:
    """A bed; ``@pytest.mark.groups(group(...), ...)`` says what its cloud sells: by default nodes of one GPU."""
    marker = request.node.get_closest_marker("groups")
    async with open_real_bed(cluster, tmp_path, marker.args if marker else [single_gpus()]) as made:
        yield made
        if not outcome.failed(request.node):
            await made.close()


def single_gpus() -> Mapping[str, object]:
    """A group ``a100`` of nodes with one GPU for $3.60 an hour, of which there are five."""
    return group("a100", instanceType="fake.a100-1x", gpusPerInstance=1, hourlyPrice="3.60", maxSize=5)


@pytest.fixture(scope="session")
def jax_python() -> Path:
    """An interpreter that has JAX; a test that wants it is skipped where it has not been installed."""
    return _python(JAX)


@pytest.fixture(scope="session")
def torch_python() -> Path:
    """An interpreter that has torch, likewise."""
    return _python(TORCH)


@pytest.fixture(scope="session")
def jupyter_python() -> Path:
    """An interpreter that has Jupyter, likewise."""
    return _python(JUPYTER)


def _python(framework: Framework) -> Path:
    absent = f"no {framework.name} installed for tests that train: run `make {framework.target}`"
    return awaited.have(framework.target, framework.find, absent)
