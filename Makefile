# On a fresh machine with Python 3.11 or later and make, `make demo` and `make test` set everything up by themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
UV_VERSION := 0.13.7
READY := $(VENV)/.ready
SOURCES := src tests benchmarks tools
DATA ?=
BENCH ?= all

.PHONY: help setup system demo quick test coverage check format bench docs lock clean

help:  ## what there is to run
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(READY)  ## the virtual environment, from the lock

# The lock names no registry: uv (or pip, where only pip is set up) asks the one this machine uses, and the
# hashes decide whether to believe it. Bytecode is compiled once here: where PYTHONDONTWRITEBYTECODE is set, every
# process would otherwise compile the libraries anew, a second each time.
$(READY): uv.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(UV) export --quiet --frozen --all-groups --all-extras --no-emit-project -o $(VENV)/requirements.txt
	$(UV) pip install --quiet --compile-bytecode --python $(VENV) --require-hashes -r $(VENV)/requirements.txt \
		|| $(BIN)/python -m pip install --quiet --require-hashes -r $(VENV)/requirements.txt
	$(UV) pip install --quiet --python $(VENV) --no-deps --no-build-isolation -e .
	touch $(READY)

# Tests drive a real browser and a real Spark cluster. Without apt and the right to use it, install the packages by
# hand. A program and the package that has it, where the two have different names.
SYSTEM := chromium java:default-jre-headless

system:  ## what tests need of the system (Chromium, Java), installed where it is missing
	@for name in $(SYSTEM); do command -v $${name%%:*} > /dev/null || { \
		root=$$(test $$(id -u) = 0 || echo sudo); \
		$$root apt-get update -qq && $$root apt-get install -y -qq --no-install-recommends $${name##*:}; }; done

demo: $(READY)  ## a release from a generated table, its answers and its report
	$(BIN)/maquette demo

# Bytecode is kept, even where PYTHONDONTWRITEBYTECODE is set: compiling the package and the tests anew costs every
# process ten seconds.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist loadfile

quick: $(READY)  ## unit tests, for use while working
	$(PYTEST) --quick

test: $(READY) system  ## the whole test suite; the tests of a file run in one process
	$(PYTEST)

# In pieces, each of which is kept until a source or a test changes: a run that was broken off goes on. A piece also has
# which test ran through which line, and how long it took (benchmarks/mutation.py chooses its tests by that).
RINGS := domain queries questions gate vault accounting samplers
PIECES := $(RINGS:%=.reached/%.db) .reached/others.db .reached/ledgers.db .reached/spark.db
TRACED = mkdir -p .reached && $(BIN)/python -m coverage run --data-file=$@ -m pytest -p tools.reached_by
.DELETE_ON_ERROR:
$(PIECES): $(READY) $(shell find src tests -name '*.py')

.reached/others.db:
	$(TRACED) -m "not slow" tests/tools tests/releasing tests/mechanisms/test_direct_through_the_gate.py \
		tests/audit/test_person_attack.py tests/surface/test_checks.py tests/surface/test_lazy_numba.py
.reached/ledgers.db:
	$(TRACED) -m slow tests/accounting/test_ledger_files.py tests/accounting/test_ledger_tamper.py \
		tests/accounting/test_ledger_receipts.py
.reached/spark.db:
	$(TRACED) -m slow tests/vault/test_spark.py
.reached/%.db:
	$(TRACED) -m "not slow" tests/$*

coverage: $(PIECES)  ## branches of the trusted rings that their tests run through (docs/architecture.md)
	$(BIN)/python -m coverage combine --keep $(PIECES)
	$(BIN)/python -m coverage report
	$(BIN)/python tools/count_branches.py

check: $(READY)  ## format, lint, types, import directions, addresses, words
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python tools/check_addresses.py
	$(BIN)/python tools/check_words.py

format: $(READY)  ## put the code into its form
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

bench: $(READY)  ## the benchmarks; DATA=folder of tables, BENCH=one name
	$(BIN)/python -m benchmarks $(BENCH) $(if $(DATA),--data $(DATA))

docs: $(READY)  ## the documentation site, into site/
	$(BIN)/python tools/make_cli_page.py
	$(BIN)/python tools/make_reference_page.py
	NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict  # not --quiet: warnings must count

lock: $(READY)  ## resolve pyproject.toml anew and take the addresses out of the result
	rm -f uv.lock
	$(UV) lock
	$(BIN)/python tools/neutral_lock.py uv.lock

clean:  ## remove what was made here, the environment included
	rm -rf $(VENV) site dist build demo-output .pytest_cache .ruff_cache .hypothesis .schemathesis .import_linter_cache .coverage .reached .mutation.jsonl
	find src tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} +
