# Every target sets up what it needs: a virtual environment in .venv, nothing assumed but python3 (3.11 or later) and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PEERS  := .bench-venv
STEEL  := examples/10_steel_contact
ROCK   := examples/20_rockfall_wall

.PHONY: run rockfall rockfall-core test test-all lint types bench venv clean help

help:            ## say what each target does
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 12

run: $(VENV)/.run            ## the main job: three contact laws calibrated, compared, used for prediction, reported
	$(BIN)/tamis compare $(STEEL)/m1.toml $(STEEL)/m2.toml $(STEEL)/m3.toml

rockfall-core: $(VENV)/.run  ## a wall of blocks on bars struck by a boulder: 600 impacts, three calibrations; 40 minutes on two idle cores
	$(BIN)/tamis run $(ROCK)/all.toml
	$(BIN)/tamis run $(ROCK)/energy.toml
	$(BIN)/tamis run $(ROCK)/point.toml

rockfall: rockfall-core      ## the same, then energy, another reading, efficiency, blocks that break, tables and figures: 80 minutes; can be interrupted
	$(BIN)/tamis run $(ROCK)/books.toml
	$(BIN)/tamis run $(ROCK)/runner_up.toml
	$(BIN)/tamis run $(ROCK)/efficiency.toml
	$(BIN)/tamis compare $(ROCK)/unbreakable.toml $(ROCK)/breakable.toml
	$(BIN)/python $(ROCK)/evaluate.py
	$(BIN)/python $(ROCK)/figures.py
	$(BIN)/python $(ROCK)/recovery.py

test: $(VENV)/.dev           ## the tests, without the slow ones
	$(BIN)/python -m pytest -q -n auto -m "not slow"

test-all: $(VENV)/.dev       ## all tests, the slow ones included
	$(BIN)/python -m pytest -q -n auto

lint: $(VENV)/.dev           ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell src tests docs examples benchmarks *.md

types: $(VENV)/.dev          ## static types
	$(BIN)/mypy

bench: $(VENV)/.dev $(PEERS)/.done   ## speed and error beside other packages, as ratios measured in one run
	$(BIN)/python benchmarks/run.py --peers $(PEERS)/bin/python

venv: $(VENV)/.dev           ## the development environment

clean:           ## remove environments, caches and the examples' results
	rm -rf $(VENV) $(PEERS) .pytest_cache .mypy_cache .ruff_cache examples/*/runs examples/*/results

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "tamis needs Python 3.11 or later; try make PYTHON=python3.12"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { echo "python3 cannot make a virtual environment; on Debian: apt-get install python3-venv"; exit 2; }

$(VENV)/.run: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[dev]"
	@touch $@ $(VENV)/.run

$(PEERS)/.done: benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install -q --disable-pip-version-check -r $<
	@touch $@
