# Every target does its own set-up. What it installs is pinned by hash in requirements/.
# The environment lives in .venv; pip keeps its downloads in its own cache, outside this folder.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
EXTENSION := editors/vscode
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check
# Nothing but wheels: what has to be built first runs whatever its author likes.
PINNED := --require-hashes --only-binary=:all:

# Tests start hundreds of processes: each would compile the package anew, and each pytest all tests.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help everything everything-quick bench demo test test-long test-faults test-fleet soak fuzz vsix test-vscode pictures-vscode test-console pictures-console test-openwebui pictures-openwebui mutants lint format coverage coverage-core pins picture clean model-server test-agents agents-table test-clients clients-table goldens reference

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Dragoman needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	@echo "setting up $(VENV) ..." >&2
	@$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: requirements/run.txt pyproject.toml | $(BIN)/python
	@echo "installing what dragoman runs on ..." >&2
	@$(PIP) install $(PINNED) -r requirements/run.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/run.stamp
	@echo "installing what the tests need ..." >&2
	@$(PIP) install $(PINNED) -r requirements/dev.txt
	@touch $@

# Leaving it with Ctrl-C is no error. The shell waits for it meanwhile, instead of leaving it alone with the terminal.
demo: $(VENV)/run.stamp ## a chat with the built-in demo agent; without a terminal, its tour
	@trap : INT; $(BIN)/dragoman demo || test $$? -eq 130

# Without Node the extension's tests are skipped, and say so. Nothing that is installed runs a script of its own.
NPM_CI := npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
$(EXTENSION)/node_modules/.stamp: $(EXTENSION)/package-lock.json
	@mkdir -p $(@D)
	@if command -v npm >/dev/null; then echo "installing what the extension's tests need ..." >&2; cd $(EXTENSION) && $(NPM_CI) >&2; fi
	@touch $@

$(EXTENSION)/packaging/node_modules/.stamp: $(EXTENSION)/packaging/package-lock.json
	@command -v npm >/dev/null || { echo "To package the extension, Node and npm are needed: install Node 20 or newer." >&2; exit 2; }
	@echo "installing what packages the extension ..." >&2
	@cd $(EXTENSION)/packaging && $(NPM_CI) >&2
	@touch $@

test: $(VENV)/dev.stamp $(EXTENSION)/node_modules/.stamp ## the tests that need nothing but Python and Node, without the long ones
	@$(BIN)/python -m pytest -n 3 --dist worksteal -m "not long" --hypothesis-profile=short $(ARGS)

# End to end with the commands of a fleet: they belong to `make test-fleet`.
FLEET_TESTS := $(patsubst %,tests/fleet/test_%.py,elections fleet_end_to_end guide_run stolen_credentials)
test-long: $(VENV)/dev.stamp ## the long ones: end to end, through many processes; and every search at its whole length
	@$(BIN)/python -m pytest -n 3 --dist worksteal -m "long or hypothesis" $(addprefix --ignore=,$(FLEET_TESTS)) $(ARGS)

test-faults: $(VENV)/dev.stamp ## faults in every state, one or two at a time, through real processes: hundreds of runs; ARGS="--seed 7" repeats one
	@PYTHONPATH=tests $(BIN)/python -m faults $(ARGS)

test-fleet: $(VENV)/dev.stamp ## a fleet's commands end to end; fleets on a cluster of NATS with faults of every role, under load; and the bridge's tests through a gateway; ARGS="--faults 500"
	@PYTHONPATH=tests $(BIN)/python -m fleet_faults $(addprefix --beside ,$(FLEET_TESTS)) $(ARGS)

soak: $(VENV)/dev.stamp ## fifty conversations for ten minutes; draws the bridge's memory in docs/images/soak.svg
	@PYTHONPATH=tests $(BIN)/python -m faults.soak --plot docs/images/soak.svg $(ARGS)

# The fuzzer and what it has learnt are kept in ~/.cache/dragoman-tests, or in $DRAGOMAN_TEST_CACHE.
FUZZER := $(or $(DRAGOMAN_TEST_CACHE),$(HOME)/.cache/dragoman-tests)/fuzz/atheris
$(FUZZER)/.stamp: requirements/fuzz.txt $(VENV)/dev.stamp
	@echo "installing the fuzzer ..." >&2
	@$(PIP) install $(PINNED) --upgrade --target $(FUZZER) -r requirements/fuzz.txt
	@touch $@

fuzz: $(FUZZER)/.stamp ## everything that parses, a minute each, by coverage; ARGS="--seconds 600 --only acp_messages"
	@PYTHONPATH=tests:$(FUZZER) $(BIN)/python -m fuzz $(ARGS)

vsix: dist/dragoman.vsix ## the VS Code extension, packaged: dist/dragoman.vsix

# Always: it brings the package along, and knows best what has changed.
.PHONY: dist/dragoman.vsix
dist/dragoman.vsix: $(VENV)/run.stamp $(EXTENSION)/node_modules/.stamp $(EXTENSION)/packaging/node_modules/.stamp
	@cd $(EXTENSION) && node package.mjs ../../$(BIN)/python ../../$@

# VS Code and the browser's driver are kept in ~/.cache/dragoman-tests, or in $DRAGOMAN_TEST_CACHE.
test-vscode: dist/dragoman.vsix ## the extension in a real VS Code, in a real browser
	@sh tests/vscode_browser/run.sh dist/dragoman.vsix $(BIN)/dragoman $(ARGS)

pictures-vscode: dist/dragoman.vsix ## take the pictures of VS Code in docs/images anew, from those tests
	@DRAGOMAN_IMAGES=$(CURDIR)/docs/images sh tests/vscode_browser/run.sh dist/dragoman.vsix $(BIN)/dragoman $(ARGS)

# The browser's driver and its Node are there, too; those tests share them.
test-console: $(VENV)/dev.stamp ## the console in a real browser: people, agents and attackers
	@sh tests/console_browser/run.sh $(BIN)/dragoman $(ARGS)

pictures-console: $(VENV)/dev.stamp ## take the pictures of the console in docs/images anew, from those tests
	@DRAGOMAN_TEST_FILE=pictures DRAGOMAN_IMAGES=$(CURDIR)/docs/images sh tests/console_browser/run.sh $(BIN)/dragoman $(ARGS)

# Open WebUI is there as well: its slim form, 550 MB.
test-openwebui: $(VENV)/dev.stamp ## Open WebUI in a real browser, before a real server with agents
	@sh tests/openwebui/run.sh $(BIN)/dragoman $(ARGS)

pictures-openwebui: $(VENV)/dev.stamp ## take the picture of Open WebUI in docs/images anew, from those tests
	@DRAGOMAN_TEST_FILE=pictures DRAGOMAN_IMAGES=$(CURDIR)/docs/images sh tests/openwebui/run.sh $(BIN)/dragoman $(ARGS)

mutants: $(VENV)/dev.stamp ## which small changes of the core no test notices (takes an hour)
	@$(BIN)/python tests/mutation/mutants.py $(ARGS)

lint: $(VENV)/dev.stamp ## ruff and a strict type check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev.stamp ## let ruff put the layout right
	$(BIN)/ruff check --fix-only --exit-zero .
	$(BIN)/ruff format .

model-server: $(VENV)/dev.stamp ## a scripted model on loopback, to try an agent without an account
	@PYTHONPATH=tests $(BIN)/python -m model_server $(ARGS)

test-agents: $(VENV)/dev.stamp ## real agents against a scripted model; installs them outside this folder
	@PYTHONPATH=tests $(BIN)/python -m agents $(ARGS)

agents-table: $(VENV)/dev.stamp ## write docs/agents.md anew, from the last complete run and the catalogue
	@PYTHONPATH=tests $(BIN)/python -m agents --document

test-clients: $(VENV)/dev.stamp ## real HTTP clients against a real server, and through a chain of two; installs them outside this folder
	@PYTHONPATH=tests:. $(BIN)/python -m clients $(ARGS)

clients-table: $(VENV)/dev.stamp ## write docs/clients.md anew, from the list of clients
	@PYTHONPATH=tests:. $(BIN)/python -m clients --document

goldens: $(VENV)/dev.stamp ## write anew what the bridge makes of agents' traces; then read what has changed
	@PYTHONPATH=tests $(BIN)/python -m traces.goldens

reference: $(VENV)/dev.stamp ## write docs/reference anew, from the code
	@PYTHONPATH=tests $(BIN)/python -m reference

# Contestants are installed in ~/.cache/dragoman-tests, or in $DRAGOMAN_TEST_CACHE.
bench: $(VENV)/dev.stamp ## what the bridge costs, beside others; a complete run writes the plot and docs/performance.md
	@$(BIN)/python -m bench $(ARGS)

everything: $(VENV)/dev.stamp ## what takes too long for CI, and one table: faults, soak, fuzz, mutants, coverage, bench (some hours)
	@$(BIN)/python tests/everything.py $(ARGS)

everything-quick: $(VENV)/dev.stamp ## the same for seconds each, and all that writes files: CI runs it
	@$(BIN)/python tests/everything.py --quick $(ARGS)

# Of this process only: what a process of its own does (the terminal's keys, the relay) counts for nothing here.
coverage: $(VENV)/dev.stamp $(EXTENSION)/node_modules/.stamp ## branch coverage of the whole package, by all tests that need nothing but Python and Node
	@$(BIN)/python -m pytest -n 3 --cov --cov-report=term-missing:skip-covered --cov-fail-under=90 $(ARGS)

# What decides, and does nothing else: of backends/agent, all that docs/architecture.md says is without I/O. Hypothesis looks in the same places each time, and in few: a branch is taken, or it is not, and `make test-long` searches.
CORE_TESTS := tests/acp_wire tests/agent tests/checker tests/conversations tests/fleet/test_hints.py tests/fleet/test_placement.py tests/fleet/test_window.py tests/forms tests/journal tests/lm tests/loop tests/permissions tests/policy tests/tools tests/security/test_hostile_agent.py tests/fuzz/test_fuzz_found.py
CORE := diffs.py globs.py forms/check.py forms/extraction.py lm/*.py loop/*.py permissions/*.py tools/*.py tools/when/*.py checker/check.py checker/probes.py checker/verdicts.py \
  $(patsubst %,conversations/%.py,context history identify ids records vscode_results) \
  $(patsubst %,fleet/%.py,hints placement window) \
  $(patsubst %,journal/%.py,agent_events chat_agents chat_events chat_fold content event events finding fold masking permission_event response_events) \
  $(patsubst %,policy/%.py,arguments command_conditions examples git_folders match matching options path_patterns policy requested rule shell_builtins simple_command words wrappers) \
  $(patsubst %,backends/agent/%.py,profile/observations machine/machine machine/lost_results machine/types prompt/demands prompt/prompting prompt/replay prompt/session_context \
  reply/announcements reply/held_text reply/narrator reply/undelivered session/actions)
comma := ,
space := $(subst ,, )
coverage-core: $(VENV)/dev.stamp ## every branch of the core, taken by its own tests: anything less fails
	@CI=true $(BIN)/python -m pytest -q -n 3 --dist worksteal -m "not long" --hypothesis-profile=short $(CORE_TESTS) --cov --cov-report= $(ARGS)
	@$(BIN)/coverage report --skip-covered --fail-under=100 --include='$(subst $(space),$(comma),$(strip $(addprefix src/dragoman/,$(CORE))))'

PICTURE := docs/images/demo.svg
picture: $(VENV)/run.stamp ## draw the picture in README anew, from the tour
	$(BIN)/python -m devtools.picture $(PICTURE)

# pip 23 takes the newest release of a package that is asked for with an extra and pinned without: so extras stay in the pins.
pins: ## resolve requirements/ anew from pyproject.toml (needs uv)
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-strip-extras \
	  --upgrade --extra build pyproject.toml -o requirements/run.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-strip-extras \
	  --upgrade --extra build --extra dev --extra fleet -c requirements/run.txt pyproject.toml -o requirements/dev.txt

clean: ## remove the environment and all caches
	rm -rf $(VENV) dist $(EXTENSION)/dist $(EXTENSION)/node_modules $(EXTENSION)/packaging/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
