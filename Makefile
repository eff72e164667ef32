# Targets for people and for CI; every one makes .venv first and needs nothing but Python, gcc and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
WITHOUT_SETTINGS := env -u DAGSTER_HOME

.PHONY: demo test test_a_to_h test_i_to_z daemon browser soak fuzz ocr check format bench screenshots clean

$(INSTALLED): constraints.txt pyproject.toml setup.cfg
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing pinned dependencies into $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test]'
	@touch $@

demo: $(INSTALLED)   ## ingest examples/ on the embedded default and ask it three questions
	@$(WITHOUT_SETTINGS) $(BIN)/python examples/demo.py

ORDINARY := -m "not daemon and not soak and not ocr and not browser"

test: $(INSTALLED)   ## all tests, on real parts, in two processes at once
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target test_a_to_h test_i_to_z

test_a_to_h: $(INSTALLED)
	@$(WITHOUT_SETTINGS) $(BIN)/python -m pytest $(ORDINARY) $(wildcard ingest_assets_tests/test_[a-h]*.py)

test_i_to_z: $(INSTALLED)
	@$(WITHOUT_SETTINGS) $(BIN)/python -m pytest $(ORDINARY) $(wildcard ingest_assets_tests/test_[i-z]*.py)

daemon: $(INSTALLED)   ## the real daemon, webserver and sensors, from a dropped file to an answer
	@$(WITHOUT_SETTINGS) $(BIN)/python -m pytest -m daemon

browser: $(INSTALLED)   ## the Dagster UI in a headless Chromium
	@command -v chromium >/dev/null || { echo "make browser needs chromium (Debian: apt-get install chromium)"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test,browser]'
	@$(WITHOUT_SETTINGS) $(BIN)/python -m pytest -m browser

soak: $(INSTALLED)   ## long histories of kill -9, and random ones of sources
	@$(WITHOUT_SETTINGS) $(BIN)/python -m pytest -m soak

MINUTES ?= 1
fuzz: $(INSTALLED)   ## damaged documents for every parser: make fuzz MINUTES=50 gives each of the five formats ten
	@$(WITHOUT_SETTINGS) $(BIN)/python -m ingest_assets_tests.fuzz --minutes $(MINUTES)

ocr: $(INSTALLED)   ## recognising scans, with the engine of this machine
	@command -v tesseract >/dev/null || { echo "make ocr needs tesseract (Debian: apt-get install tesseract-ocr)"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test,ocr]'
	@$(WITHOUT_SETTINGS) $(BIN)/python -m pytest -m ocr

$(VENV)/.checked: $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

check: $(VENV)/.checked   ## lint and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(VENV)/.checked
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(INSTALLED)   ## figures, into benchmarks/results.md
	@$(BIN)/python benchmarks/chunk_locality.py --write
	@$(BIN)/python benchmarks/first_load.py --write
	@$(BIN)/python benchmarks/bookkeeping.py --write
	@$(BIN)/python benchmarks/checks.py --write
	@$(BIN)/python benchmarks/daemon.py --write
	@$(BIN)/python benchmarks/discovery.py --write
	@$(BIN)/python benchmarks/upload.py --write
	@$(BIN)/python benchmarks/extraction_isolation.py --write
	@$(BIN)/python benchmarks/embedding.py --write
	@$(BIN)/python benchmarks/extraction.py --write
	@$(BIN)/python benchmarks/retrieval.py --write
	@$(BIN)/python benchmarks/serving.py --write
	@$(BIN)/python benchmarks/moving.py --write

screenshots: $(INSTALLED)   ## the pictures of docs/ui.md, from the real UI
	@command -v chromium >/dev/null || { echo "make screenshots needs chromium (Debian: apt-get install chromium)"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test,browser]'
	@$(WITHOUT_SETTINGS) $(BIN)/python examples/make_screenshots.py

clean:
	rm -rf $(VENV) .ingest .ingest-demo build dist *.egg-info
