"""Fixtures that every kind of test may use."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import awaited, lanes, outcome
from tests.durations import Durations
from tests.testbed import job_controllers as job_controller_files
from tests.testbed import karpenter as karpenter_files
from tests.testbed import prometheus as prometheus_programs
from tests.testbed.build import MissingProgramsError
from tests.testbed.controlplane import ControlPlane
from tests.testbed.job_controller_process import JobControllerProcesses
from tests.testbed.karpenter_process import KarpenterProcess
from tests.testbed.kuberay import program as kuberay_program
from tests.testbed.kuberay.process import KubeRayProcess
from tests.testbed.kueue import program as kueue_program
from tests.testbed.kueue.process import KueueProcess

LONGEST_ID = 120
"""Characters of a test's id after its file."""
LONGEST_VALUE = 16
"""Characters of a parameter's text in it."""

settings.register_profile("any machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")  # how long an example takes is no behaviour: a busy machine takes any time


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that chooses a lane."""
    parser.addoption("--lane", choices=[*lanes.Lane], default=lanes.Lane.LONG, help="which tests run (tests/README.md)")


def pytest_configure(config: pytest.Config) -> None:
    """Set the lane before test modules are imported: their settings ask for it."""
    gc.disable()
    lanes.choose(config.getoption("--lane"))
    config.pluginmanager.register(Durations())


def pytest_make_parametrize_id(val: object) -> str | None:
    """A long text is cut in the ids of tests; where two begin alike, pytest numbers them."""
    if not isinstance(val, str | bytes):
        return None
    head = val[: LONGEST_VALUE + 1]
    escaped = (head if isinstance(head, str) else head.decode("latin-1")).encode("unicode_escape").decode()
    return f"{escaped[: LONGEST_VALUE - 1]}~" if len(escaped) > LONGEST_VALUE else None


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """A file that has nothing of the lane is not imported: each worker would take ten seconds for all of them."""
    if collection_path.name.startswith("test_") and collection_path.suffix == ".py":
        return None if lanes.may_hold(collection_path, lanes.chosen()) else True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, object, object]:
    """An id that fills a screen is an error of its module."""
    made = yield
    for item in made if isinstance(made, list) else ():
        if len(item.nodeid.partition("::")[2]) > LONGEST_ID:
            raise collector.CollectError(f"longer than {LONGEST_ID} characters, so give it an id: {item.nodeid}")
    return made


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: no garbage is looked for among it, a twentieth of all time."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only the lane's tests, and of these first the ones for which everything is made.

    A test that waits for what is being made keeps its worker from all others. On a fresh machine the long tests of
    Kueue, Karpenter and real nodes kept all four waiting for ten minutes. Those on real nodes begin first all the same:
    they are one group, which takes longest, so if it began last all others would wait for it.
    """
    if lost := [item.nodeid for item in items if lanes.in_no_lane(item)]:
        raise pytest.UsageError(f"mark these tests in their own file, or `make test` does not see them: {lost}")
    others = [item for item in items if not lanes.belongs(item, lanes.chosen())]
    config.hook.pytest_deselected(items=others)
    own = [item for item in items if lanes.belongs(item, lanes.chosen())]
    must_wait = {item for item in own if awaited.needs(item) and item.get_closest_marker("real_nodes") is None}
    items[:] = [
        *_in_order([item for item in own if item not in must_wait]),
        *_in_order([item for item in own if item in must_wait]),
    ]
    for item in items:
        awaited.give_time(item, float(config.getini("timeout")))


def _in_order(items: Sequence[pytest.Item]) -> Sequence[pytest.Item]:
    """The longest first, then those with a control plane spread evenly among the others.

    Tests with a control plane mostly wait and the others compute, so workers that do both at a time are done soonest.
    Workers take the tests in this order, a group of ``xdist_group`` at once. Those on real nodes are one group, which
    takes longest.
    """
    long = [item for item in items if item.get_closest_marker("long")]
    long.sort(key=lambda item: item.get_closest_marker("real_nodes") is None)
    rest = [item for item in items if not item.get_closest_marker("long")]
    waiting = [item for item in rest if "control_plane" in getattr(item, "fixturenames", ())]
    computing = [item for item in rest if "control_plane" not in getattr(item, "fixturenames", ())]
    places = [(place / len(kind), item) for kind in (waiting, computing) for place, item in enumerate(kind)]
    return long + [item for _, item in sorted(places, key=lambda entry: entry[0])]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember whether the test itself failed: then its bed is torn down without the closing checks."""
    report = yield
    outcome.remember(item, report)
    return report


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real control plane, one for each xdist worker. Tests share it: each uses names of its own."""
    try:
        plane = ControlPlane.start(tmp_path_factory.mktemp("control-plane"))
    except MissingProgramsError as error:
        missing = str(error)
    else:
        with plane:
            yield plane
        return
    pytest.fail(missing, pytrace=False)


@pytest.fixture(scope="session")
def karpenter_installed(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KarpenterProcess]:
    """A real Karpenter on the control plane; a test that wants it is skipped where it has not been built."""
    files = awaited.have("karpenter", karpenter_files.find, "Karpenter has not been built: run `make karpenter`")
    with KarpenterProcess.start(control_plane, files, tmp_path_factory.mktemp("karpenter")) as running:
        yield running


@pytest.fixture
def karpenter(karpenter_installed: KarpenterProcess) -> KarpenterProcess:
    """Karpenter, running, and its cloud with everything in stock."""
    karpenter_installed.behave()
    if not karpenter_installed.running:
        karpenter_installed.restart()
    return karpenter_installed


@pytest.fixture(scope="session")
def job_controllers(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JobControllerProcesses]:
    """The real controllers of JobSets and TrainJobs; a test that wants them is skipped where they are not built."""
    absent = "the controllers of JobSets and TrainJobs have not been built: run `make job-controllers`"
    found = awaited.have("job-controllers", job_controller_files.find, absent)
    with JobControllerProcesses.start(control_plane, found, tmp_path_factory.mktemp("job-controllers")) as running:
        yield running


@pytest.fixture(scope="module")
def kueue(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KueueProcess]:
    """A real Kueue, for one module: its webhooks look at every Job and pod. Skipped where it has not been built.

    So each module with it is a group of its own, and all of them may run at once, each on a worker's control plane.
    """
    files = awaited.have("kueue", kueue_program.find, "Kueue has not been built: run `make kueue`")
    with KueueProcess.start(control_plane, files, tmp_path_factory.mktemp("kueue")) as running:
        yield running


@pytest.fixture(scope="module")
def kuberay(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeRayProcess]:
    """A real KubeRay; a test that wants it is skipped where it has not been built."""
    files = awaited.have("kuberay", kuberay_program.find, "KubeRay has not been built: run `make kuberay`")
    with KubeRayProcess.start(control_plane, files, tmp_path_factory.mktemp("kuberay")) as running:
        yield running


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Prometheus' program that checks rules; a test that wants it is skipped where it is neither found nor built."""
    return _program("promtool")


@pytest.fixture(scope="session")
def prometheus() -> Path:
    """Prometheus' server; a test that wants it is skipped where it is neither found nor built."""
    return _program("prometheus")


def _program(name: str) -> Path:
    absent = f"no {name} on PATH and none in the cache: run `make prometheus`"
    return awaited.have("prometheus", lambda: prometheus_programs.find(name), absent)
