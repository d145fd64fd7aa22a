# Needs only make and Python 3.11 or newer. All else is installed into .venv, pinned, its hashes checked.

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=

# The interpreter's version is part of the stamp, so that another PYTHON makes the environment anew.
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null)
# One more than there are cores: many tests wait, for leases, brokers and processes.
WORKERS ?= $(shell n=$$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN); [ "$$n" -gt 2 ] 2>/dev/null && echo $$((n + 1)) || echo 3)

BIN     := $(VENV)/bin
READY   := $(VENV)/.ready-$(VERSION)
INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
           --no-header --no-emit-index-url --no-emit-find-links --annotation-style line

.DEFAULT_GOAL := help
.PHONY: help demo test quick exhaustive check format stubs house bench compare lock picture clean
.DELETE_ON_ERROR:

help: ## List these commands
	@echo "make <command> [ARGS='...'] [PYTHON=python3.13]"
	@echo
	@sed -n 's/^\([a-z][a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name what; \
		do printf '  %-10s %s\n' "$$name" "$$what"; done

demo: $(READY)-demo ## Install and watch events fire, on SQLite (ARGS go to `duly demo`)
	@$(BIN)/duly demo $(ARGS)

test: $(READY)-dev ## Install and run every test (ARGS go to pytest)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

quick: $(READY)-dev ## Run the tests that find most in 90 seconds, between two edits (ARGS go to pytest)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --quick $(ARGS)

exhaustive: $(READY)-dev ## Check rules against every zone and date, and the API at every boundary (about 100 minutes)
	@DULY_EXHAUSTIVE=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --timeout 3600 \
		tests/pure/test_oracle.py tests/pure/test_cron_oracle.py tests/pure/test_yearly_oracle.py \
		tests/http/test_schemathesis.py tests/recipes/test_many_users.py $(ARGS)

check: $(READY)-dev ## Check style, formatting, types and import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy src/duly/sync.py  # for the line above, the stub stands before it
	@$(BIN)/lint-imports --no-logo

format: $(READY)-dev ## Format the code and fix what can be fixed
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

stubs: $(READY)-dev ## Write src/duly/sync.pyi again after a verb's signature changed
	@$(BIN)/python -m tools.sync_stub

picture: $(READY)-demo ## Draw the demo for the README again
	@$(BIN)/python -m tools.demo_picture docs/img/demo.svg

house: $(READY)-dev ## Print how the source tree is built, in figures beside their targets
	@$(BIN)/python -m tests.house

bench: $(READY)-bench ## Measure beside other schedulers and write docs/benchmarks.md (ARGS=--quick: in three minutes)
	@$(BIN)/python -m benchmarks $(ARGS)

compare: $(READY)-dev ## Tell whether this is slower than BASE=<commit> (in 20 minutes; ARGS='--rounds 7 --only drain': less)
	@test -n "$(BASE)" || { echo "Name a commit to compare with: make compare BASE=HEAD~1"; exit 2; }
	@$(BIN)/python -m benchmarks.compare $(BASE) $(ARGS)

lock: $(READY) ## Pin the dependencies again after pyproject.toml changed (ARGS=--upgrade for newer ones)
	$(COMPILE) $(ARGS) --group uv -o requirements/uv.txt
	$(COMPILE) $(ARGS) pyproject.toml --extra postgres --extra holidays --extra webhooks --group dev --group build -o requirements/dev.txt
	$(COMPILE) pyproject.toml --extra webhooks --extra nats --extra server --group demo --group build -c requirements/dev.txt \
		-o requirements/demo.txt
	$(COMPILE) pyproject.toml --extra postgres --extra holidays --extra webhooks --group dev --group build --group bench -c requirements/dev.txt \
		-o requirements/bench.txt

clean: ## Remove the environment, caches and build results
	rm -rf $(VENV) dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests tools benchmarks examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

$(READY): requirements/uv.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Duly needs Python 3.11 or newer; $(PYTHON) is $(or $(VERSION),not to be found)."; \
		echo "Install one and name it: make PYTHON=python3.13 ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments: its venv module is a package of its own here."; \
		echo "Install it (Debian, Ubuntu: apt install python3-venv) and try again."; exit 1; }
	@echo "Making $(VENV) with Python $(VERSION)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip -qq --disable-pip-version-check install --require-hashes -r requirements/uv.txt
	@touch $@

$(READY)-%: requirements/%.txt pyproject.toml $(READY)
	@echo "Installing Duly and what requirements/$*.txt pins"
	@$(INSTALL) --require-hashes -r $<
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@
