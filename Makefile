# `make run` starts everything, `make test` runs the tests of the bridge, `make all` is what CI runs.
# `make help` lists the targets: each one's description is the comment behind it.

PYTHON = .venv/bin/python
UV ?= uv
# `make all` runs all tests.
BRIDGE_TESTS = --ignore=tests/clusters --ignore=tests/tools

.DEFAULT_GOAL := run
.PHONY: help run all check lint types imports guard fmt test test-all test-nightly test-unit test-clusters test-clients test-tools \
    test-migration test-upgrade test-manifests test-containers test-redis-cluster test-matrix \
    coverage fuzz bench torture explore simulate contract soak setup lock docs clients swagger vendor clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-20s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Run Redis, RabbitMQ and the bridge until Ctrl-C
	@sh deploy/setup.sh run
	@exec $(PYTHON) -m bridge.local

# The checks take one core, and the guard another.
all: setup ## Run every check and every test, as CI does
	@$(MAKE) --jobs=2 --output-sync=target check guard; checks=$$?; $(MAKE) test-all && exit $$checks

check: lint types imports ## Run the checks that need no server, in seconds

lint: setup ## Check style and format
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .

types: setup ## Check types
	@$(PYTHON) -m mypy

imports: setup ## Check that no module imports what its layer may not
	@.venv/bin/lint-imports

guard: setup ## Compare the cost of a message with the code before its last change, or with AGAINST=commit
	@$(PYTHON) -m tests.guard

fmt: setup ## Mend what ruff can mend, and format
	@$(PYTHON) -m ruff check --fix .
	@$(PYTHON) -m ruff format .

test: setup ## Run the tests of the bridge, or those of FILE="tests/a.py tests/b.py"
	@$(PYTHON) -m pytest $(or $(FILE),$(BRIDGE_TESTS)) $(ARGS)

test-all: setup ## Run all tests, but those of tools that are unchanged since `make test-nightly`
	@$(PYTHON) -m pytest $(ARGS)

test-nightly: setup ## Run all tests, those of unchanged tools too, from a new seed or SEED=number, and note what these passed with
	@echo "make test-nightly SEED=$(SEED)"
	@sh deploy/setup.sh containers >&2
	@$(PYTHON) -m pytest --nightly --hypothesis-seed=$(SEED) $(ARGS)
	@$(PYTHON) -m tests.nightly

test-unit: setup ## Run the tests that need no server, in seconds
	@$(PYTHON) -m pytest tests/unit $(ARGS)

test-clusters: setup ## Run the tests that kill nodes of RabbitMQ and Redis clusters
	@$(PYTHON) -m pytest tests/clusters $(ARGS)

test-clients: setup ## Install Go, Java, Node, PHP and their AMQP libraries, and run the tests of all clients and examples
	@sh deploy/setup.sh clients >&2
	@$(PYTHON) -m pytest tests/clients $(ARGS)

test-tools: setup ## Run the tests of commands: benchmark, torture, soak, guard, local servers, topology's drain
	@$(PYTHON) -m pytest tests/tools $(ARGS)

test-migration: setup ## Run clients of the delayed-message plugin, of six libraries, after a migration, on each version of RabbitMQ
	@sh deploy/setup.sh clients >&2
	@for suite in trixie forky; do \
	    sh deploy/unpack-servers.sh $$suite "$${XDG_CACHE_HOME:-$$HOME/.cache}/delaybridge/$$suite" || exit 1; done
	@for version in "" 4.0 4.3; do BRIDGE_TEST_PUBLISHERS=all BRIDGE_TEST_RABBITMQ=$$version \
	    $(PYTHON) -m pytest tests/migrate tests/door -n 2 -rs $(ARGS) || exit 1; done

test-upgrade: setup ## Run a bridge of an earlier commit and this one side by side on one topology
	@$(PYTHON) -m pytest tests/tools/upgrade -n 1 $(ARGS)

test-manifests: setup ## Render the Helm chart, and run the tests of the Kubernetes manifests; downloads Helm (75 MB)
	@$(PYTHON) -m pip install --quiet --require-hashes --only-binary :all: --requirement tests/helm.lock
	@$(PYTHON) -m tests.tools.manifests.rendered
	@$(PYTHON) -m pytest tests/tools/manifests -n 1 $(ARGS)

test-containers: setup ## Install podman, and run the image of Dockerfile and the services of docker-compose.yml; prints seconds and sizes
	@sh deploy/setup.sh containers >&2
	@$(PYTHON) -m pytest tests/tools/containers -n 0 -s -rs $(ARGS)

test-redis-cluster: setup ## Run the tests of a running bridge with its records on a Redis Cluster
	@BRIDGE_TEST_REDIS=cluster $(PYTHON) -m pytest tests/integration tests/wires $(ARGS)

test-matrix: setup ## Run the tests that need servers on each version of RabbitMQ and Redis (docs/versions.md)
	@exec $(PYTHON) -m tests.matrix

coverage: setup ## Run the tests of the bridge, or those of FILE, and list the lines that none of them reaches
	@$(PYTHON) -m pytest --cov --cov-report=term --cov-report=html:.local/coverage $(or $(FILE),$(BRIDGE_TESTS)) $(ARGS)

fuzz test-nightly: SEED ?= $(shell od -An -N3 -tu4 /dev/urandom | tr -d ' ')
fuzz: setup ## Run the fuzz and property tests with many more examples, from a new seed or SEED=number
	@echo "make fuzz SEED=$(SEED)"
	@HYPOTHESIS_PROFILE=long $(PYTHON) -m pytest tests/fuzz tests/property tests/unit/broker -n 2 --hypothesis-seed=$(SEED) --timeout=3600

bench: setup ## Measure the figures on this machine; ARGS="--only lone --json" prints JSON alone
	@exec $(PYTHON) -m benchmarks $(ARGS)

torture: setup ## Kill, freeze and slow down servers under load; ARGS="--minutes 2 --seed 1 --json" prints JSON alone
	@exec $(PYTHON) -m tests.torture $(or $(ARGS),--minutes 10)

explore: setup ## Visit the orders of events of a few messages, breadth first, and print the figures as JSON; ARGS="--states 20000" visits fewer
	@exec $(PYTHON) -m tests.explore $(ARGS)

simulate: setup ## Simulate a bridge with faults by SEED=number, and print the figures as JSON; ARGS="--seeds 1-100" runs more
	@exec $(PYTHON) -m tests.simulate --seed $(or $(SEED),1) $(ARGS)

contract: setup ## Compare the simulated RabbitMQ with real ones, 3.10, 4.0 and 4.3, or with that of BRIDGE_TEST_RABBITMQ (docs/proof.md)
	@for version in $(or $(BRIDGE_TEST_RABBITMQ),3.10 4.0 4.3); do BRIDGE_TEST_RABBITMQ=$$version \
	    $(PYTHON) -m pytest tests/simulate -n 2 $(ARGS) || exit 1; done

soak: setup ## Run two rounds of load, and name what is left after the second; ARGS="--minutes 2 --json" prints JSON alone
	@exec $(PYTHON) -m tests.soak $(or $(ARGS),--minutes 60)

# On standard error: the output of `make bench`, `make torture`, `make explore`, `make simulate` and `make soak` may be JSON for a program.
setup: ## Install Python packages into .venv, and RabbitMQ and Redis where they are missing
	@sh deploy/setup.sh develop >&2

# uv makes the second lock within the first, so that tests run with the versions that are deployed.
lock: ## Write the lock files again from pyproject.toml; versions that still fit are kept
	@$(UV) pip compile --quiet --universal --no-strip-extras --python-version 3.11 --generate-hashes --custom-compile-command "make lock" \
	    --group build pyproject.toml --output-file deploy/requirements.lock
	@$(UV) pip compile --quiet --universal --no-strip-extras --python-version 3.11 --generate-hashes --custom-compile-command "make lock" \
	    --group dev --extra otel --constraints deploy/requirements.lock pyproject.toml --output-file tests/requirements.lock
	@$(UV) pip compile --quiet --universal --no-strip-extras --python-version 3.11 --generate-hashes --custom-compile-command "make lock" \
	    --group helm --output-file tests/helm.lock
	@$(UV) pip compile --quiet --universal --no-strip-extras --python-version 3.11 --generate-hashes --custom-compile-command "make lock" \
	    --group pip --output-file deploy/pip.lock

docs: setup ## Write the generated pages again: of commands, settings, checks, and the life of a message
	@$(PYTHON) -m tests.docs.cli_page
	@$(PYTHON) -m tests.docs.settings_page
	@$(PYTHON) -m tests.docs.doctor_page
	@$(PYTHON) -m tests.docs.life_picture

clients: setup ## Write the types of the TypeScript client again, from the OpenAPI document
	@$(PYTHON) -m tests.clients.typescript.schema

swagger: ## Replace the files of Swagger UI, which /docs loads, by those of VERSION=number
	@sh deploy/swagger.sh $(VERSION)

vendor: ## Bring back the console's files of npm's packages, as their lock file names them
	@sh deploy/vendor.sh $(ARGS)

clean: ## Remove all that make has made
	rm -rf .venv .local .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage* build dist clients/typescript/build
	find . -name node_modules -type d -prune -exec rm -rf {} +
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
