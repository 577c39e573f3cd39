# Two commands for a user: `make demo` and `make test`. Each does all of its own set-up,
# in a virtual environment of the project's own, and is quick the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check format fresh clean

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "spdcluster needs Python 3.11 or newer, found %d.%d: make PYTHON=/path/to/python3.11" % v[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,bench]'
	@touch $@

demo: $(READY)
	$(BIN)/spdcluster demo

test: $(READY)
	$(BIN)/python -m pytest

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# numba's machine code on disk, which does not follow changes in functions of other files
fresh:
	find src -name '*.nb[ic]' -delete

clean: fresh
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
