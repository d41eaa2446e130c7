# Every target says what it does in the comment after its name; `make` alone lists them.

PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
BIN := $(VENV)/bin
SOURCES := tq_celery tests $(wildcard bench baseline deploy)

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-all test-docker test-floor check check-images check-manifests check-rules format bench-quick

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(VENV)/.installed ## create .venv and install the project (PYTHON=python3.12 chooses another Python)

demo: venv ## a flood against quiet tenants: stock Celery, then fair scheduling, on an embedded Valkey
	@$(BIN)/tq demo

test: venv ## the tests, on servers from pip and those of Debian's that are installed; names what was skipped
	@$(BIN)/pytest $(ARGS)

test-all: venv ## the same with the slow tests
	@$(BIN)/pytest --slow $(ARGS)

test-docker: venv ## image, compose files and workers in containers; says so where no Docker engine answers
	@if docker info >/dev/null 2>&1; then \
	    TQ_TEST_DOCKER=1 $(BIN)/pytest -p celery -p docker_tools tests/docker $(ARGS); \
	else echo "not run: no Docker engine answers (docker info)"; fi

test-floor: ## the tests on the oldest Celery, kombu and redis-py that are supported, in .venv-floor
	@$(MAKE) --no-print-directory test VENV=.venv-floor CONSTRAINTS=constraints-floor.txt

bench-quick: venv ## every experiment very small, each checked to have left all it has to
	@$(BIN)/python -m bench quick $(ARGS)

check: venv check-images ## style of code and Dockerfiles, types and import rules
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy $(SOURCES)
	$(BIN)/lint-imports

check-images: venv ## the Dockerfiles, with hadolint
	$(BIN)/hadolint $(shell find deploy tests/docker -name Dockerfile)

check-manifests: venv ## the Kubernetes manifests, rendered by kubectl, against the schemas of Kubernetes
	@$(BIN)/python deploy/kubernetes/check.py

check-rules: ## the Prometheus rules and their unit tests, with promtool
	@promtool check config deploy/prometheus/prometheus.yml
	@promtool test rules deploy/prometheus/tests/*.yml

format: venv ## sort imports and lay the code out
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "tq-celery needs Python 3.11 or newer; choose one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "installing into $(VENV) (once; about a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e '.[demo,dev]'
	@touch $@
