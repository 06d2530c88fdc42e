# Two commands on a fresh machine: `make run` and `make test`. Each sets up .venv if needed; the
# stamps below make the second time quick, and a changed pyproject.toml or lock sets up again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCKED := --no-deps --require-hashes -r
TORCH := $(shell sed -n 's/^\(torch==[^ ;]*\).*/\1/p' constraints.txt)
JOBS ?= auto

TESTS ?=
SERVE ?=
SINCE ?= HEAD

.PHONY: help install run serve test test-all test-quick browser lint stubs bench mutate site \
        lock sbom dist release clean

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
	@echo "make lock       hashes of all that is installed, after a dependency changed"
	@echo "make release    lint, all tests, then the package with its bill of materials in dist/"
	@echo "make site       the whole course, measured and drawn, as static HTML in site/"

install: $(VENV)/.core

run: $(VENV)/.core
	$(BIN)/principia tour

serve: $(VENV)/.core
	$(BIN)/principia serve $(SERVE)

# What is missing (a browser, large data sets) is skipped and counted; with CI=true it is a failure.
# Where an image tells Python to keep no bytecode, each of some hundred processes would compile it all.
unexport PYTHONDONTWRITEBYTECODE
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
	$(BIN)/ruff check src tests benchmarks docs locks
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

# PyTorch comes first: pip takes the build that this machine has, which must be one that we know, and
# then what that build alone needs, in versions that it names itself. All else has its hash here.
$(VENV)/.core: $(VENV)/.python pyproject.toml locks/core.txt locks/torch.txt locks/torch-cpu.txt
	@echo "Installing Principia into $(VENV); the first time takes a few minutes."
	$(PIP) --no-deps --report $(VENV)/torch.json $(TORCH)
	@$(BIN)/python locks/trusted.py $(VENV)/torch.json || { $(BIN)/python -m pip uninstall --quiet --yes torch; exit 2; }
	$(PIP) $(LOCKED) locks/core.txt
	$(PIP) $(TORCH)
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.core locks/dev.txt
	$(PIP) $(LOCKED) locks/dev.txt
	@touch $@

# The package as it is released, and the list of all that it installs, read off an environment in
# which nothing else is. The time in the files is that of the commit: the same commit, the same bits.
release: lint test-all dist

dist: $(VENV)/.dev
	rm -rf dist build
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --no-isolation --outdir dist .
	$(MAKE) VENV=build/venv build/venv/.released
	$(MAKE) sbom OF=build/venv/bin/python
	cd dist && sha256sum *.whl *.tar.gz *.json > SHA256SUMS

build/venv/.released: build/venv/.core
	$(PIP) --no-deps --force-reinstall dist/*.whl
	cd build && venv/bin/principia tour

OF ?= $(BIN)/python
VALIDATE ?= --validate
sbom: $(VENV)/.dev
	@mkdir -p dist
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --mc-type library $(VALIDATE) \
	  --output-reproducible --output-format JSON --output-file dist/principia.cdx.json $(OF)

lock: $(VENV)/.dev
	$(BIN)/python locks/make.py
