# `make run` starts everything, `make test` runs every test, `make all` is what CI runs.

PYTHON = .venv/bin/python
UV ?= uv

.PHONY: run test all lint types imports bench torture lock clean setup

run: ## Redis, RabbitMQ and the bridge, until Ctrl-C
	@sh deploy/setup.sh run
	@exec $(PYTHON) -m bridge.local

all: lint types imports test

test: setup
	@$(PYTHON) -m pytest

lint: setup
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .

types: setup
	@$(PYTHON) -m mypy

imports: setup
	@.venv/bin/lint-imports

bench: setup
	@exec .venv/bin/delaybridge bench

torture: setup
	@exec .venv/bin/delaybridge torture --minutes 10

setup:
	@sh deploy/setup.sh develop

# The second lock is made within the first, so that tests run with the versions that are deployed.
lock:
	@$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock" \
	    --group build pyproject.toml --output-file deploy/requirements.lock
	@$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock" \
	    --group dev --constraints deploy/requirements.lock pyproject.toml --output-file tests/requirements.lock

clean:
	rm -rf .venv .local .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
