# `make up` runs everything, `make test` checks everything. Both need Python 3.11 or later and nothing else.

VENV := .venv
# Always `python -m …`: it also works in a clone that was moved after it was installed.
RUN := $(VENV)/bin/python
# The first Python on the PATH that is new enough. PYTHON=… chooses another.
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	if $$name -c '$(NEW_ENOUGH)' 2>/dev/null; then echo $$name; break; fi; done)
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
LOCKABLE := import fcntl; fcntl.flock(open(".data/lock"), fcntl.LOCK_EX | fcntl.LOCK_NB)
# Just enough to load the settings, and no developer's .env.
CHECKS := ENV_FILE= SECRET_KEY=only-for-checks-and-never-used-for-anything ENCRYPTION_KEYS=k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
# Each worker has servers of its own (tests/servers.py); one that has run out of tests takes some of another's.
PARALLEL := --numprocesses auto --dist worksteal
STACKS := --numprocesses 2 --dist worksteal
LOCK := uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url \
	--python-version 3.11 pyproject.toml

# Everything optional: nobody can add to an image.
IMAGE := --extra sso --extra tracing --extra sentry

# What the transport is made of, and the tests of the transport.
NEWEST := aiohttp httpx uvloop
TRANSPORT_TESTS := tests/unit/deliveries/pump tests/unit/deliveries/test_send.py tests/integration/deliveries/pump \
	tests/integration/subscriptions/guards

.DEFAULT_GOAL := help
.PHONY: help up test test-newest quick coverage fuzz fuzz-pages faults soak upgrade planted bench lint lint-api api-document \
	format install lock audit-deps clean

help: ## this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: $(VENV)/.installed-local ## run the platform: servers, web, workers and a demo; Ctrl-C stops it all
	@exec $(RUN) -m webhooks_platform.local.up

# Two rounds in parallel. Tests of whole stacks start a dozen processes each, so there are only two of them at a time.
test: lint ## every check and every test, on servers of their own
	@$(CHECKS) $(RUN) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	@$(RUN) -m pytest $(PARALLEL) tests/unit tests/integration
	@cd clients/python && exec ../../$(RUN) -m pytest
	@exec $(RUN) -m pytest $(STACKS) tests/e2e tests/faults tests/fuzz

quick: lint ## style, types, imports and the unit tests: less than a minute
	@exec $(RUN) -m pytest $(PARALLEL) tests/unit

coverage: $(VENV)/.installed-dev ## lines and branches that unit and integration tests reach, held by a floor
	@$(RUN) -m coverage erase
	@$(RUN) -m coverage run -m pytest $(PARALLEL) tests/unit tests/integration
	@$(RUN) -m coverage combine --quiet
	@exec $(RUN) -m coverage report

test-newest: $(VENV)/.installed-dev ## the transport's tests on the newest aiohttp and httpx, whatever the locks say
	@rm -rf .data/newest
	@$(RUN) -m pip install --quiet --upgrade --target .data/newest $(NEWEST)
	@PYTHONPATH=.data/newest $(RUN) -c 'import aiohttp, httpx; print("aiohttp", aiohttp.__version__, "httpx", httpx.__version__)'
	@PYTHONPATH=.data/newest $(RUN) -m pytest $(TRANSPORT_TESTS)

fuzz: $(VENV)/.installed-dev ## hostile requests to every API route as every role; ARGS="--minutes 10"
	@exec $(RUN) -m tests.fuzz $(ARGS)

fuzz-pages: $(VENV)/.installed-dev ## hostile requests to every page and form as every kind of visitor; EXAMPLES=4000
	@FUZZ_EXAMPLES=$(or $(EXAMPLES),4000) $(RUN) -m pytest --timeout 3600 tests/fuzz/test_pages.py

SEEDS ?= 1,2,3
faults: $(VENV)/.installed-dev ## every fault on the real system, into docs/reliability.md; ONLY=redis-frozen SEEDS=1,2
	@exec $(RUN) -m tests.faults --seeds "$(SEEDS)" --only "$(ONLY)" --report "$(or $(REPORT),auto)" --note "$(NOTE)" --jobs "$(or $(JOBS),1)"

soak: $(VENV)/.installed-dev ## half an hour near the limit with sick receivers, into docs/reliability.md; MINUTES=5 RATE=100
	@exec $(RUN) -m tests.faults.soak --minutes "$(or $(MINUTES),30)" $(if $(RATE),--rate $(RATE)) --report "$(or $(REPORT),yes)" --note "$(NOTE)" $(ARGS)

upgrade: $(VENV)/.installed-dev ## an upgrade from a commit to this tree and the way back, under load; FROM=<commit>
	@exec $(RUN) -m tests.faults.upgrade --from "$(FROM)"

planted: $(VENV)/.installed-dev ## faults planted in a copy of the code, and who notices them; ONLY=sweep-off
	@exec $(RUN) -m tests.faults.planted --only "$(ONLY)"

bench: $(VENV)/.installed-dev ## how fast, beside what the machine can do; ARGS="deliver emit --quick" for less
	@exec $(RUN) -m benchmarks $(ARGS)

lint: $(VENV)/.installed-dev ## style, types, templates, which part may import which
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy
	@cd clients/python && ../../$(RUN) -m mypy
	@$(RUN) -m djlint --check --quiet templates
	@$(RUN) -c 'from importlinter.cli import lint_imports_command as lint; lint()'

api-document: $(VENV)/.installed-dev ## write the API's examples, docs/openapi.json and the table of routes anew
	@WRITE_API_DOCUMENT=1 $(RUN) -m pytest -q -p no:randomly tests/integration/webhooks_platform/openapi/test_examples.py
	@WRITE_API_DOCUMENT=1 $(RUN) -m pytest -q -p no:randomly tests/unit/webhooks_platform/openapi/test_document.py
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory client-typescript; fi

lint-api: ## lint docs/openapi.json with Redocly's linter (needs npm)
	@npx --yes @redocly/cli@2 lint docs/openapi.json

format: $(VENV)/.installed-dev ## let ruff tidy the code, and djlint the templates
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .
	@$(RUN) -m djlint --reformat --quiet templates

install: $(VENV)/.installed-dev ## a virtual environment with everything for development

# What the broker carries, and what breaks beneath it. Not test_bell.py, which looks into the lists of Redis.
BROKER_TESTS := tests/faults tests/e2e/test_emit_over_http.py \
	tests/integration/deliveries/test_deliver.py tests/integration/deliveries/upkeep/test_heartbeat.py

.PHONY: test-rabbitmq test-pgbouncer docs settings-page chart
chart: $(VENV)/.installed-dev ## check the Helm chart (needs helm, kubeconform and Go)
	@$(RUN) deploy/helm/check.py .data/schemas

docs: $(VENV)/.installed-dev ## build the docs as a site, in .data/website/html
	@$(RUN) -W ignore::RuntimeWarning -m website.build .data/website
	@echo "Open .data/website/html/index.html"

settings-page: $(VENV)/.installed-dev ## write docs/settings.md anew, after a change of the settings
	@$(RUN) -m website.settings_page

test-rabbitmq: $(VENV)/.installed-dev ## delivery and fault tests with RabbitMQ as the broker (needs rabbitmq-server)
	@test -x /usr/lib/rabbitmq/bin/rabbitmq-server || { echo "On Debian and Ubuntu: apt install rabbitmq-server" >&2; exit 1; }
	@TEST_BROKER=rabbitmq $(RUN) -m pytest $(STACKS) $(or $(ONLY),$(BROKER_TESTS))

test-pgbouncer: $(VENV)/.installed-dev ## every test through PgBouncer in transaction mode (needs pgbouncer); ONLY=tests/integration
	@test -x /usr/sbin/pgbouncer || { echo "On Debian and Ubuntu: apt install pgbouncer" >&2; exit 1; }
	@TEST_POOLER=pgbouncer $(RUN) -m pytest --reuse-db $(STACKS) $(or $(ONLY),tests/unit tests/integration tests/e2e tests/faults)

.PHONY: client-package client-typescript effects lighthouse
lighthouse: $(VENV)/.installed-dev ## Lighthouse on every page of the portal: 100 for accessibility and best practices (needs npm); ONLY=home,keys
	@LIGHTHOUSE=npx ONLY="$(ONLY)" $(RUN) -m pytest -s tests/e2e/test_portal_lighthouse.py

client-typescript: ## generate, compile and test the TypeScript client, after a change of it or of the API (needs npm)
	@cd clients/typescript && npm ci --no-audit --no-fund --loglevel error && npm run --silent generate && npm run --silent build && npm test --silent

effects: $(VENV)/.installed-dev ## a shop, its outbox, the platform and a receiver, killed at random: each order ships once; KILLS=100 SEED=7
	@EFFECTS_KILLS=$(or $(KILLS),50) EFFECTS_SEED=$(or $(SEED),1) $(RUN) -m pytest -p no:randomly -s tests/faults/test_effects.py

client-package: $(VENV)/.installed-dev ## build the Python client, try it in empty environments; PYTHONS="python3.11 python3.13"
	@exec $(RUN) clients/python/try_package.py $(PYTHONS)

lock: ## resolve pyproject.toml into locks/ anew (needs uv)
	@command -v uv >/dev/null || { echo "make lock needs uv: https://docs.astral.sh/uv/" >&2; exit 1; }
	$(LOCK) $(IMAGE) -o locks/runtime.txt
	$(LOCK) --extra sso --extra local -o locks/local.txt
	$(LOCK) $(IMAGE) --extra local --extra dev -o locks/dev.txt

audit-deps: $(VENV)/.installed-dev ## known vulnerabilities of what is installed, where an advisory service answers
	@exec $(RUN) .ci/audit_deps.py

clean: ## remove the virtual environment, the data and all caches; .env stays
	@test ! -e .data/lock || $(PYTHON) -c '$(LOCKABLE)' 2>/dev/null || { \
		echo "The platform is running here. Stop it with Ctrl-C first." >&2; exit 1; }
	rm -rf $(VENV) .data .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp for each lock file, so an install happens when its list changes and not otherwise.
$(VENV)/.installed-local: locks/local.txt | $(RUN)
	@$(RUN) webhooks_platform/local/install.py $<
	@touch $@

# Holds everything of the local one.
$(VENV)/.installed-dev: locks/dev.txt | $(RUN)
	@$(RUN) webhooks_platform/local/install.py $<
	@touch $(VENV)/.installed-local $@

$(RUN):
	@test -n "$(PYTHON)" && $(PYTHON) -c '$(NEW_ENOUGH)' || { \
		echo "Python 3.11 or later is needed, and none was found. Name one: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; \
		exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV)
