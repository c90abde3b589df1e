# Everything a newcomer needs: `make demo` shows a result, `make test` checks the whole project.
# Both need nothing but Python 3.11 (or newer) and make: they create .venv and install pinned packages; with LOCKED=1
# (Linux, Python 3.11) only files whose hashes are in requirements.lock.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
WORKERS ?= 2

.PHONY: demo test docs check format golden lock dist release clean

demo: $(VENV)/.installed
	$(BIN)/nqg demo

# Workers take neighbouring tests, which share the models that their file trains.
test: $(VENV)/.installed-dev
	$(BIN)/pip check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

docs: $(VENV)/.installed-dev         ## the documentation as a site: strict, every link checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "to read it, with a search: $(BIN)/python -m http.server -d site"

check: format test

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

golden: $(VENV)/.installed-dev       ## rewrite tests/golden from what the code does now; read the diff
	NQG_REWRITE_GOLDEN=1 $(BIN)/pytest -n $(WORKERS)

lock: $(VENV)/.installed-dev         ## requirements.lock, bill of materials and licences from constraints.txt
	$(BIN)/pip install --quiet -c constraints.txt hatchling editables
	$(BIN)/python deploy/supply_chain.py

dist: $(VENV)/.created               ## the source archive and the wheel, in dist/
	$(BIN)/pip install --quiet -c constraints.txt hatchling
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist

release: dist $(VENV)/.installed     ## what dist makes, and two trained parsers as archives
	$(BIN)/python deploy/release_models.py

clean:
	rm -rf $(VENV) site dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "nqg needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.11 …"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[paper,train,web]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/.created pyproject.toml constraints.txt requirements.lock
ifdef LOCKED
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
else
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
endif
	touch $@ $(VENV)/.installed
