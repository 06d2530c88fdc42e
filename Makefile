# Two commands on a fresh machine: `make run` and `make test`. Each sets up .venv if needed; the
# stamps below make the second time quick, and a changed pyproject.toml or constraints.txt sets up
# again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
TORCH := $(shell sed -n 's/^\(torch==[^ ;]*\).*/\1/p' constraints.txt)
JOBS ?= auto

TESTS ?=
SERVE ?=
SINCE ?= HEAD

.PHONY: help install run serve test test-all test-quick browser lint stubs bench mutate site clean

help:
	@echo "make run        set up, then take the tour (writes principia-tour.html)"
	@echo "make serve      set up, then open the course in a browser (SERVE=--allow-root in a container)"
	@echo "make test       set up, then run the tests (some of TESTS=..., JOBS=2 at a time)"
	@echo "make test-quick the lab, and the pages that have changed since SINCE=HEAD"
	@echo "make test-all   every case on five seeds, every experiment killed: for releases"
	@echo "make browser    install Chromium, which the tests of the web page drive"
	@echo "make install    set up alone: .venv with the command principia"
	@echo "make lint       style, types and import contracts"
	@echo "make stubs      types of every chapter's components, after a page was added"
	@echo "make bench      races against specialist libraries, as ratios"
	@echo "make mutate     bugs planted in every page, and how many its claims notice (a while)"
	@echo "make site       the whole course, measured and drawn, as static HTML in site/"

install: $(VENV)/.core

run: $(VENV)/.core
	$(BIN)/principia tour

serve: $(VENV)/.core
	$(BIN)/principia serve $(SERVE)

# What is missing (a browser, large data sets) is skipped and counted; with CI=true it is a failure.
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist worksteal --durations 25

test: $(VENV)/.dev
	$(PYTEST) $(TESTS)

test-all: $(VENV)/.dev
	$(PYTEST) --whole --seeds 5 $(TESTS)

test-quick: $(VENV)/.dev
	$(PYTEST) --quick --since $(SINCE) $(TESTS)

# Debian's package where the user may install packages, else Playwright's own build.
browser: $(VENV)/.dev
	@if command -v chromium; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; \
	elif command -v apt-get >/dev/null && sudo -n true 2>/dev/null; then \
	  sudo apt-get update -qq && sudo apt-get install -y -qq --no-install-recommends chromium; \
	else $(BIN)/playwright install chromium; fi

lint: $(VENV)/.dev
	$(BIN)/ruff check src tests benchmarks docs
	$(BIN)/pyright
	$(BIN)/lint-imports

stubs: $(VENV)/.core
	$(BIN)/python -m principia.lab.course.stubs

bench: $(VENV)/.dev
	$(BIN)/principia bench

# Pages whose claims do not pass are refused, and keep their old scores; the exit code tells of them.
mutate: $(VENV)/.core
	$(BIN)/principia mutate --all --update; ended=$$?; \
	$(BIN)/principia mutate --markdown > docs/.MUTATION.md && \
	mv docs/.MUTATION.md docs/MUTATION.md && exit $$ended

site: $(VENV)/.core
	$(BIN)/principia site site

clean:
	rm -rf $(VENV) site principia-tour.html principia-races.html

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "Principia needs Python 3.10 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try make PYTHON=python3.11 $(MAKECMDGOALS)."; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# PyTorch comes first and in the exact version: another package would pull in another build of it.
$(VENV)/.core: $(VENV)/.python pyproject.toml constraints.txt
	@echo "Installing Principia into $(VENV); the first time takes a few minutes."
	$(PIP) $(TORCH)
	$(PIP) --editable ".[digits]"
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(PIP) --editable ".[dev]"
	@touch $@
