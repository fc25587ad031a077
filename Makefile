# `make run` starts everything, `make test` runs every test, `make all` is what CI runs.

PYTHON = .venv/bin/python
UV ?= uv

.PHONY: run test test-redis-cluster test-matrix all lint types imports guard bench torture fuzz lock clean setup

run: ## Redis, RabbitMQ and the bridge, until Ctrl-C
	@sh deploy/setup.sh run
	@exec $(PYTHON) -m bridge.local

all: lint types imports guard test

test: setup
	@$(PYTHON) -m pytest

# What runs on a bridge, with its records on a Redis Cluster of three masters.
test-redis-cluster: setup
	@BRIDGE_TEST_REDIS=cluster $(PYTHON) -m pytest tests/integration tests/wires

# The tests that need servers, on each version of RabbitMQ and Redis: docs/versions.md.
test-matrix: setup
	@exec $(PYTHON) -m tests.matrix

lint: setup
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .

types: setup
	@$(PYTHON) -m mypy

imports: setup
	@.venv/bin/lint-imports

# What a message costs the bridge, beside what it cost before the code was last changed, or in the commit AGAINST.
guard: setup
	@$(PYTHON) -m tests.guard

bench: setup
	@exec $(PYTHON) -m benchmarks $(ARGS)

fuzz: SEED ?= $(shell od -An -N3 -tu4 /dev/urandom | tr -d ' ')
fuzz: setup
	@echo "make fuzz SEED=$(SEED)"
	@FUZZ_TIMES=20 $(PYTHON) -m pytest tests/fuzz -n 2 --hypothesis-seed=$(SEED) --timeout=3600

torture: setup
	@exec $(PYTHON) -m tests.torture $(or $(ARGS),--minutes 10)

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
