# Everything a contributor or a CI machine does. It needs only Python 3.11+ and make; `make` alone tells the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-builtin-rules
# The suite starts hundreds of interpreters: an environment that forbids compiled files makes each compile all it imports.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help

PYTHON ?= python3
WORKERS ?= 4
PYTEST_ARGS ?=
DEMO_ARGS ?=
RELEASE_ARGS ?=
IMAGE ?= charterer:dev

BIN := .venv/bin
READY := .venv/.ready
MADE := $(BIN)/python -m tests.testbed.make
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder --ignore=tests/bench \
	--ignore=tests/torch_training --ignore=tests/e2e/test_torch.py --ignore=tests/release
SITE := out/site-tools
DEMO := $(BIN)/python -m $(if $(REAL),demo.real,demo $(DEMO_ARGS) $(if $(CLOUD),--cloud $(CLOUD)) $(if $(KEEP),--keep) \
	$(if $(SIMULATE),--simulate))
DEMO_NEEDS := $(if $(REAL),nodes training,$(READY))
BENCHES := $(filter-out tests/bench/_%,$(sort $(wildcard tests/bench/*.py)))
BESIDE := $(BIN)/python tests/beside.py
LINT := lint-types lint-rest
# What no operator runs: a third of the seconds of tests/unit.
OUTSIDE := tests/unit/cli tests/unit/report tests/unit/simulate tests/unit/trainer
SCHEMA := $(BIN)/python -m charterer.api.schema --reference docs/reference.md \
	--troubleshooting docs/troubleshooting.md --reasons docs/reasons.md crds charts/charterer-crds/templates
VALUES_PAGE := $(BIN)/python -m tests.chart.values_page
PARAMETERS := $(BIN)/python -m tests.parameters
ANSWERS := $(BIN)/python -m charterer.tools.commands.shared.answers docs/schemas
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-header --no-emit-index-url $(if $(UPGRADE),--upgrade)

.PHONY: help .venv testbed nodes training training-torch focus generated prometheus karpenter job-controllers kueue kuberay lint lint-types lint-rest check \
	check-unit check-outside check-others docs test test-long test-all test-versions test-kubernetes-1.36 test-helm-4 test-torch test-release e2e \
	bench demo kind-demo image sbom release test-image requirements clean

help: ## Tell the targets
	@awk -F ':.*## ' '/^[a-z0-9.-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv: $(READY) ## Install Charterer and its tools into .venv (PYTHON=... chooses the interpreter)

$(READY): requirements/dev.txt pyproject.toml trainer/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Charterer needs Python 3.11 or newer, and \
	$(PYTHON) is `$(PYTHON) --version 2>&1`: repeat with PYTHON=/path/to/a/newer/python3" >&2; exit 1; }
	@echo "installing into .venv, which takes a minute"
	@$(PYTHON) -m venv .venv
	@awk '/^[^ ]/ {ours = /^uv==/} ours' requirements/dev.txt > .venv/uv.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r .venv/uv.txt
	@# uv takes a third of the time; pip knows more ways through a company's network.
	@VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --require-hashes --compile-bytecode -r requirements/dev.txt || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e trainer
	@touch $@

testbed: $(READY) ## Make the Kubernetes of the tests and the demo: fetched, else built (once per machine, minutes)
	@$(MADE) testbed

nodes: $(READY) ## What real nodes need beside it: kubelet, containerd, runc, CNI plugins (as root, on Debian)
	@$(MADE) testbed nodes

lint: $(READY) ## Check style, types, layers and that generated files are fresh
	@$(BESIDE) $(MAKE) $(LINT)

lint-types: $(READY)
	$(BIN)/mypy

lint-rest: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(SCHEMA) --check
	$(VALUES_PAGE) --check
	$(ANSWERS) --check
	$(PARAMETERS) --check
	$(BIN)/zizmor --offline --quiet .github
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))

generated: $(READY) ## Write the files again that are made of others: CRDs, reference, words, chart values, schemas
	$(SCHEMA)
	$(VALUES_PAGE)
	$(ANSWERS)
	$(PARAMETERS)

prometheus: $(READY) ## Prometheus, for the tests of alerts (once per machine, seconds on Debian)
	@$(MADE) prometheus

karpenter: $(READY) ## Build Karpenter for the tests that rent through it (once per machine, minutes)
	@$(MADE) karpenter

job-controllers: $(READY) ## Build the controllers of JobSets and TrainJobs, for tests of adopted jobs (once per machine, minutes)
	@$(MADE) job-controllers

kueue: $(READY) ## Build Kueue for the tests of queues (once per machine, minutes)
	@$(MADE) kueue

kuberay: $(READY) ## Build KubeRay for the tests of RayJobs (once per machine, minutes)
	@$(MADE) kuberay

training: $(READY) ## Install JAX and Jupyter for the tests that train in containers or run notebooks (once per machine, a minute)
	@$(MADE) training

focus: $(READY) ## Install the validator of FOCUS, for the test of `charterer costs --focus` (once per machine, a minute)
	@$(MADE) focus

training-torch: $(READY) ## Install torch, and what trains by it, for tests (once per machine, 2 GB)
	@$(MADE) training-torch

check: $(READY) ## Lint and all tests that need nothing but Python, in three minutes on two cores
	@$(BESIDE) $(MAKE) $(LINT) check-unit check-outside check-others

# Each file of tests is imported by one process: with workers of pytest-xdist, all of them import each. With -k there may be no test.
check-unit: $(READY)
	$(BIN)/pytest --quiet --lane check --junitxml=out/tests-unit.xml $(OUTSIDE:%=--ignore=%) tests/unit $(PYTEST_ARGS) || test $$? -eq 5

check-outside: $(READY)
	$(BIN)/pytest --quiet --lane check --junitxml=out/tests-outside.xml $(OUTSIDE) $(PYTEST_ARGS) || test $$? -eq 5

check-others: $(READY)
	$(BIN)/pytest --quiet --lane check --junitxml=out/tests-others.xml --ignore=tests/unit --ignore=tests/bench \
		--ignore=tests/torch_training --ignore=tests/e2e/test_torch.py --ignore=tests/release $(PYTEST_ARGS) || test $$? -eq 5

# Tests that need no program run before anything is built; what only some tests need is made while the others run.
MEANWHILE := $(MADE) testbed --meanwhile "nodes training image" --meanwhile "prometheus karpenter job-controllers kueue kuberay focus" --

test: check ## Everything that a merge needs (PYTEST_ARGS="-k spot", WORKERS=2)
	$(MEANWHILE) $(PYTEST) --lane rest --junitxml=out/tests-rest.xml $(PYTEST_ARGS) || test $$? -eq 5

test-long: lint test-all test-versions test-release ## All tests with all repetitions, other versions of Kubernetes and Helm, and a release (nightly)

test-all: $(READY)
	$(MEANWHILE) $(PYTEST) --lane long --junitxml=out/tests-long.xml $(PYTEST_ARGS)

test-versions: test-kubernetes-1.36 test-helm-4 ## The tests that show what another Kubernetes or Helm changes, with each of the others

test-kubernetes-1.36: test-kubernetes-%: $(READY)
	CHARTERER_KUBERNETES=$* $(MEANWHILE) $(PYTEST) --lane rest tests/testbed tests/chart tests/contract tests/cluster tests/e2e $(PYTEST_ARGS)

test-helm-4: test-helm-%: $(READY)
	CHARTERER_HELM=$* $(MADE) testbed
	CHARTERER_HELM=$* $(PYTEST) --lane rest tests/testbed/test_controlplane.py tests/chart tests/cluster/test_crds.py \
		tests/cluster/test_getting_started.py $(PYTEST_ARGS)

test-release: release ## Install what `make release` built on a control plane, from these files and a package index alone
	@$(MADE) testbed
	$(BIN)/pytest tests/release $(PYTEST_ARGS)

e2e: $(READY) ## The tests that train in containers on real nodes (as root; minutes)
	@$(MADE) --if-possible testbed nodes training image
	$(BIN)/pytest -m real_nodes tests/e2e $(PYTEST_ARGS)

test-torch: training training-torch ## The tests that train by torch, Hugging Face's Trainer and Lightning (minutes)
	$(BIN)/pytest tests/torch_training tests/e2e/test_torch.py $(PYTEST_ARGS)

bench: testbed ## Measure, one script of tests/bench after the other
	@for script in $(basename $(notdir $(BENCHES))); do echo "== $$script"; $(BIN)/python -m "tests.bench.$$script"; done

demo: $(DEMO_NEEDS) ## Show Charterer at work, simulated at once and then on a control plane (SIMULATE=1, CLOUD=karpenter, KEEP=1, REAL=1)
	$(DEMO)

kind-demo: $(DEMO_NEEDS) ## The same on kind, with docker, podman or nerdctl (KIND_EXPERIMENTAL_PROVIDER=podman)
	$(DEMO) --cluster kind

docs: $(SITE)/.ready ## Build the site into out/site, with each of its links checked (REPOSITORY=URL and EDIT_URI add edit links)
	$(SITE)/bin/mkdocs build --strict --quiet --config-file website/mkdocs.yml

$(SITE)/.ready: requirements/site.txt
	@mkdir -p out && rm -rf $(SITE) && $(PYTHON) -m venv $(SITE)
	@$(SITE)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/site.txt
	@touch $@

image: ## Build the container image with docker, podman or buildah, whichever works here (IMAGE=name:tag, SAVE=file)
	@if docker info > /dev/null 2>&1; then set -x; docker build --tag $(IMAGE) .; $(if $(SAVE),docker save --output $(SAVE) $(IMAGE);) \
	elif command -v podman > /dev/null; then set -x; podman build --tag $(IMAGE) .; $(if $(SAVE),podman save --output $(SAVE) $(IMAGE);) \
	elif command -v buildah > /dev/null; then set -x; buildah bud --tag $(IMAGE) .; $(if $(SAVE),buildah push $(IMAGE) docker-archive:$(SAVE);) \
	else echo "no docker that answers, no podman and no buildah: install one of them" >&2; exit 1; fi

sbom: ## Write out/sbom.json: the image's Python packages and their licences (CycloneDX)
	@mkdir -p out && rm -rf out/sbom && $(PYTHON) -m venv out/sbom/tool && $(PYTHON) -m venv --without-pip out/sbom/image
	@out/sbom/tool/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/sbom.txt
	@out/sbom/tool/bin/pip --python out/sbom/image/bin/python install --quiet --disable-pip-version-check --no-compile \
		--require-hashes --only-binary :all: -r requirements/runtime.txt
	@out/sbom/tool/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file out/sbom.json \
		out/sbom/image/bin/python
	@rm -rf out/sbom

release: $(READY) ## Build all that a release publishes into out/release: packages, charts, CRDs, SBOM, site, image (RELEASE_ARGS)
	$(BIN)/python -m release.build $(RELEASE_ARGS)

test-image: $(READY) ## Build it for tests with buildah alone, on a base of Debian packages: no registry (root on Debian)
	@$(MADE) image

requirements: $(READY) ## Write requirements/*.txt again from pyproject.toml (UPGRADE=1 takes newer versions)
	$(COMPILE) pyproject.toml --extra aws --extra azure --extra gcp --extra records --extra traces \
		--output-file requirements/runtime.txt
	$(COMPILE) pyproject.toml --group dev --constraint requirements/runtime.txt --output-file requirements/dev.txt
	$(COMPILE) --group build --constraint requirements/dev.txt --output-file requirements/build.txt
	$(COMPILE) --group go --output-file requirements/go.txt
	$(COMPILE) --group sbom --output-file requirements/sbom.txt
	$(COMPILE) --group site --output-file requirements/site.txt
	$(COMPILE) --group jax --output-file requirements/jax.txt
	$(COMPILE) --group jupyter --constraint requirements/jax.txt --output-file requirements/jupyter.txt
	$(subst 3.11,3.12,$(COMPILE)) --group focus --output-file requirements/focus.txt
	$(COMPILE) --group torch --output-file requirements/torch.txt
	$(COMPILE) --group torch-trainers --constraint requirements/torch.txt --output-file requirements/torch-trainers.txt

clean: ## Remove all that was made in this checkout (the test bed's programs stay in the machine's cache)
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
