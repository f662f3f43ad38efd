# Every verb is self-sufficient: machine/needs.txt says what it needs beside Python 3.11; root on Debian or Ubuntu gets that
# installed, anybody else is told how, before anything runs.

PYTHON ?= python3
TOOLS := .tools
VENV := .venv
# Trust what this machine trusts, so that a company's own certificates do.
export UV_SYSTEM_CERTS ?= 1
# Of several, uv would take another than PYTHON.
export UV_PYTHON ?= $(PYTHON)
# Where this is set, as container images do, each program that a test starts compiles every module again: 0.9 s of CPU instead of 0.4.
unexport PYTHONDONTWRITEBYTECODE
# Unit tests wait, for processes and sockets, half of their time.
export PYTEST_XDIST_AUTO_NUM_WORKERS ?= $(shell expr 2 \* $$(nproc))

RUN := $(VENV)/bin/
STAMP := $(VENV)/.synced
BYTE_PATH := $(RUN)python -m benchmarks.byte_path
RUNS := build/byte_path.jsonl
REPORT := build/report
# Suites that have verbs of their own.
ELSEWHERE := system or image or installed or kubernetes or kubelet
FAULTS := failures sessions_survive live_change upgrades transparent descriptors handover guard fault_matrix
# What `make demo` and `make report` move: 3.9 is three real brokers, embedded needs neither Java for them nor Maven.
KAFKA ?= 3.9
DEMO_NEEDS := needs.$(if $(filter embedded,$(KAFKA)),setup,demo)

.PHONY: setup check test pipeline explore fuzz simulation faults image installed machines kubernetes kubelet packages release system demo report bench quick-bench rules clean help
.NOTPARALLEL:
.DEFAULT_GOAL := help

help:  ## What there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 13

needs.%:
	@PYTHON=$(PYTHON) machine/needs $*

setup: needs.setup $(STAMP)  ## Install the locked dependencies into .venv

$(STAMP): pyproject.toml pipeline/pyproject.toml lab/pyproject.toml uv.lock
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r uv.requirements.txt
	$(TOOLS)/bin/uv sync --frozen --all-packages --all-extras --quiet
	@# Without Java the pipeline does not run; with it, its first session would fetch them otherwise.
	if command -v java >/dev/null; then $(RUN)python -m pipeline.jars; fi
	@touch $(STAMP)

check: setup  ## Lint, format, types, and known vulnerabilities of what is shipped
	$(RUN)ruff check .
	$(RUN)ruff format --check .
	$(RUN)mypy
	machine/audit

test: needs.test setup  ## Unit tests, the pipeline's on Spark but its long ones, and the short form of the system tests on real brokers
	$(RUN)pytest -n auto -m 'not ($(ELSEWHERE) or brokers or spark)'
	$(RUN)pytest -n 2 --dist loadfile -m 'spark and not (long or $(ELSEWHERE) or brokers)'
	$(RUN)pytest -m 'brokers and not ($(ELSEWHERE))'

pipeline: needs.test setup  ## Every test of the pipeline, those that make test leaves out as well: a month, streams (20 minutes)
	$(RUN)pytest -n 2 --dist loadfile tests/pipeline

explore: needs.test setup  ## Properties with examples that nobody has tried yet, ROUNDS=3 times; a failure is the smallest there is
	for round in $$(seq $(or $(ROUNDS),3)); do $(RUN)pytest -n auto --hypothesis-profile=new \
		-m 'hypothesis and not ($(ELSEWHERE) or brokers or spark)' || exit; done

fuzz: setup  ## Throw bytes, files and signals at a running sidecar whose victim must not notice; ARGS="--help" says how much
	$(RUN)python -m fuzz $(ARGS)

simulation: setup  ## Clusters drawn in virtual time around the real relay, MINUTES=5; SEED=7 draws the same again; the smallest that fails is printed
	$(RUN)python -m tests.world --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED)) $(ARGS)

faults: needs.system setup  ## What breaks, broken on real brokers: the tests that docs/reliability.md lists (long; on a quiet machine)
	$(RUN)python -m lab fetch
	$(RUN)pytest -m 'system or brokers' $(addprefix tests/system/test_,$(addsuffix .py,$(FAULTS)))

image: needs.image setup  ## Build the container images without Docker and run them: hardened, between real brokers (needs root)
	$(RUN)pytest -m image tests/deploy

installed: needs.installed setup  ## The packages and a release: made twice to the same bytes, installed, upgraded, purged, between real brokers (needs root; minutes)
	$(RUN)pytest -m installed tests/deploy

machines: needs.machines setup  ## Debian and Ubuntu with git, python3 and make alone, and with systemd: every README command, the packages (hours)
	$(RUN)pytest -rP -m system tests/machine

kubernetes: needs.kubernetes setup  ## Manifests, chart and fleet on a real API server, which is compiled once (a quarter of an hour)
	$(TOOLS)/bin/uv sync --frozen --all-packages --all-extras --group kubernetes --quiet
	$(RUN)python -m lab.kubernetes.programs control-plane kyverno
	$(RUN)pytest -m kubernetes tests/kubernetes

kubelet: needs.kubelet setup  ## A pod on a real kubelet and containerd, which are compiled once: the sidecar starts first, and a quota arrives by ConfigMap
	$(TOOLS)/bin/uv sync --frozen --all-packages --all-extras --group kubernetes --quiet
	$(RUN)python -m lab.kubernetes.programs control-plane node
	$(RUN)pytest -rP -m kubelet tests/kubelet

packages: setup  ## A .deb and an .rpm with systemd units and manual pages: build/packages
	$(RUN)python -m deploy.packages

# BASE_IMAGE, IMAGE_OPTIONS (of `buildah build`: --platform) and BUILDER (the provenance's) go to it by the environment.
export BASE_IMAGE IMAGE_OPTIONS BUILDER
release: needs.release setup  ## Wheel, sdist, chart, packages, images, SBOM, provenance, changelog and checksums: dist; AUDIT=optional where OSV cannot be asked
	AUDIT=$(or $(AUDIT),required) machine/audit
	$(RUN)python -m deploy.release

system: needs.system setup  ## The whole system suite on real brokers, and its table in docs/benchmarks.md
	$(RUN)python -m lab fetch
	$(RUN)pytest -m 'system or brokers' tests/system
	$(RUN)python -m benchmarks.moves --write docs/benchmarks.md

demo: $(DEMO_NEEDS) setup  ## Watch a throttled move on three real brokers, or without Java or Maven: make demo KAFKA=embedded
	$(RUN)throttle-sidecar demo --kafka $(KAFKA)

report: needs.report setup  ## The demo with its journals kept, ingested, and told on one page: build/report/report.html
	rm -rf $(REPORT)
	$(RUN)throttle-sidecar demo --kafka $(KAFKA) --journal $(REPORT)/journal
	$(RUN)python -m pipeline ingest $(REPORT)/journal --into $(REPORT)/tables
	$(RUN)python -m pipeline report $(REPORT)/tables --out $(REPORT)/report.html

bench: needs.bench setup  ## Measure the codec, and the sidecar beside the proxies people run (long; on a quiet machine)
	$(TOOLS)/bin/uv sync --frozen --all-packages --all-extras --group bench --quiet
	rm -f $(RUNS)
	$(RUN)python -m benchmarks.codec
	$(BYTE_PATH) --json $(RUNS)
	$(BYTE_PATH) --json $(RUNS) --connections 64 --rounds 3
	$(BYTE_PATH) --json $(RUNS) --kafka-buffers --rounds 3
	$(BYTE_PATH).scaling partitions --json $(RUNS)
	$(BYTE_PATH).scaling peers --json $(RUNS)
	$(BYTE_PATH).scaling idle --json $(RUNS)
	$(BYTE_PATH).scaling memory --minutes 10 --json $(RUNS)
	$(BYTE_PATH).report.document $(RUNS) --write docs/benchmarks.md
	$(RUN)python -m benchmarks.tls --write docs/benchmarks.md
	$(RUN)python -m benchmarks.unthrottled

quick-bench: setup  ## The sidecar beside an earlier commit of itself, in one run of two minutes; COMMIT=HEAD^
	$(BYTE_PATH).earlier $(or $(COMMIT),HEAD^)

rules:  ## Prometheus' rules and the dashboard with links to a copy of the runbooks: make rules RUNBOOKS=https://wiki.example/runbooks
	@test -n "$(RUNBOOKS)" || { echo "RUNBOOKS is not set: the address at which docs/runbooks.md is published" >&2; exit 1; }
	mkdir -p build/prometheus
	cp deploy/prometheus/recording.rules.yaml build/prometheus/
	sed 's|runbook_url: docs/runbooks.md|runbook_url: $(RUNBOOKS)|' deploy/prometheus/alerts.rules.yaml \
		> build/prometheus/alerts.rules.yaml
	sed 's|"url": "docs/runbooks.md|"url": "$(RUNBOOKS)|' deploy/grafana/kafka-throttle-sidecar.json \
		> build/prometheus/kafka-throttle-sidecar.json

clean:  ## Remove what the verbs above made in this folder: the environment, caches, build and dist
	rm -rf $(VENV) $(TOOLS) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
