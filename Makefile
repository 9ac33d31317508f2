# demo: install and run the quickstart; test: install and run the tests; both are quick the second time.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo shell test browser-test coverage check bench reproduce clean

demo: .venv/.user
	$(BIN)/shiftproof run quickstart

# a shell in which `shiftproof` is found; leave it with exit
shell: .venv/.user
	@PATH="$(CURDIR)/$(BIN):$$PATH" VIRTUAL_ENV="$(CURDIR)/.venv" $${SHELL:-sh}

test: .venv/.dev
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

# the report in a headless browser: playwright drives Chromium, which has to be there or is installed by Debian's apt
browser-test: .venv/.dev
	@command -v chromium || command -v chromium-browser || command -v google-chrome \
	    || (apt-get update && apt-get install --yes chromium) \
	    || (echo "there is no browser: install Chromium or Chrome, and run make browser-test again"; exit 1)
	$(PIP) "playwright>=1.40"
	$(BIN)/python -m pytest -q -rs tests/browser tests/report/test_page_width.py tests/report/test_gallery_page.py

# the same tests, and which lines of the package they reach; processes that tests start are not counted
coverage: .venv/.dev
	$(BIN)/python -m pytest -q -n 2 --dist worksteal --cov=shiftproof --cov-report=term:skip-covered

check: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_imports.py

bench: .venv/.user
	$(BIN)/python benchmarks/load.py
	$(BIN)/python benchmarks/certify.py
	$(BIN)/python benchmarks/latent.py
	$(BIN)/python benchmarks/train.py
	$(BIN)/python benchmarks/processes.py
	$(BIN)/python benchmarks/attack.py --quick
	$(BIN)/python benchmarks/corrupt.py
	$(BIN)/python benchmarks/report.py

# run a study of a publication, or continue it, and write its page: make reproduce STUDY=glean-cmnist
reproduce: .venv/.user
	$(BIN)/shiftproof run $(STUDY) --out runs/reproduce-$(STUDY)
	$(BIN)/shiftproof estimate runs/reproduce-$(STUDY)
	$(BIN)/shiftproof report runs/reproduce-$(STUDY) --format reproduction --out docs/reproductions

clean:
	rm -rf .venv runs .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("shiftproof needs Python 3.11 or newer; this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv

.venv/.user: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e .
	@touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e ".[dev]"
	@touch $@ .venv/.user
