"""TrainingJobs with variants that the CRD accepts and refuses."""

from __future__ import annotations

from tests.cluster.crd_cases import Case, Json, make


def _job(*variants: Json, **spec: object) -> Json:
    return make("TrainingJob", "graph", variants=list(variants), **{"profileName": "gnn", **spec})


OUT_OF_CORE: Json = {
    "name": "outofcore",
    "env": [{"name": "DISK", "value": "/data"}],
    "args": ["train.py", "--disk"],
    "gpus": {"min": 1, "max": 1},
    "profileName": "gnn-ooc",
}

VARIANT_CASES = (
    Case(
        "TrainingJob",
        "variants need a profileName, under which their speeds are compared, and an interactive job has none: set "
        "profileName, or leave variants out",
        _job(OUT_OF_CORE),
        make("TrainingJob", "graph", variants=[OUT_OF_CORE]),
    ),
)
VARIANT_REFUSED = {
    "five variants": _job(*[{"name": f"v{number}"} for number in range(5)]),
    "two variants of one name": _job({"name": "a"}, {"name": "a"}),
    "a variant without a name": _job({"args": ["--fast"]}),
    "a variant whose name no profile can have": _job({"name": "Out_of_core"}),
    "a variant of an interactive job": _job(OUT_OF_CORE, interactive={}),
    "a variant's variable that is none": _job({"name": "a", "env": [{"name": "a=b", "value": "1"}]}),
    "a variant that has more GPUs at least than at most": _job({"name": "a", "gpus": {"min": 2, "max": 1}}),
}
