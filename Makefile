# `make demo` and `make test` set everything up themselves; all they need is Python 3.11 and pip's index.
# To use a torch that is smaller than the default build, install it into .venv first.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Its wheel asks for a CUDA build of torch, so it is installed apart from its dependencies.
TORCHVISION := torchvision==0.28.0
PROGRAM := fixtures/programs/image_processing
# Keep bytecode: without it each start of the command takes twice as long.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo quick test lint types walls docs self touched unit runtime verifier verify verify-jax lines evidence \
	score benchmark accelerator-benchmark corpus matrix clean

help:
	@echo 'make demo       check, fix and run a CUDA program under torchax, beside the original'
	@echo 'make quick      within a minute: lint, types, walls, and the unit tests of what changed'
	@echo 'make test       everything that continuous integration runs'
	@echo 'make lint types walls docs self unit runtime verifier verify lines    its parts'
	@echo 'make evidence   execute all fixtures; write fixtures/evidence.lock and docs/evidence.md'
	@echo 'make verify-jax verify-tensorflow verify-torch-xla verify-torchtpu verify-frameworks    fixtures with an environment of their own'
	@echo 'make score      findings against what failed when real models were traced'
	@echo 'make benchmark  speed and memory beside ast.parse, ruff, TorchFix and Fixit'
	@echo 'make accelerator-benchmark    training steps on a GPU or TPU: original, JAX by hand, and fixed'
	@echo 'make matrix     the runtime with other versions of torch, torchax and JAX; needs 30 GB'
	@echo 'make corpus     findings in pinned public projects, compared with those on record'

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed; say which: make PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv

.venv/.for-demo: .venv/bin/python pyproject.toml runtime/pyproject.toml
	$(PIP) install --quiet --editable '.[verify]' --editable ./runtime
	$(PIP) install --quiet --no-deps $(TORCHVISION)
	@$(BIN)/python -m compileall -q tpulint rules runtime/src
	@touch $@

.venv/.for-test: .venv/.for-demo pyproject.toml
	$(PIP) install --quiet --editable '.[verify,tpu,dev]' --editable ./runtime
	$(PIP) install --quiet --no-deps $(TORCHVISION)
	@touch $@

# Most parts count the lines of the tool that they reach; `lines` adds them up.
export TPULINT_ROOT := $(CURDIR)
counted = rm -rf .coverage_data/$(1) && COVERAGE_FILE=$(CURDIR)/.coverage_data/$(1)/lines $(BIN)/coverage run

quick: lint types walls touched

test: lint types walls docs self verify unit runtime verifier lines

lint: .venv/.for-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.for-test
	$(BIN)/mypy

walls: .venv/.for-test
	$(BIN)/lint-imports

docs: .venv/.for-test
	$(call counted,docs) -m tpulint.dev render-docs --check

self: .venv/.for-test
	$(call counted,self) -m tpulint check tpulint rules tests

touched: .venv/.for-test
	$(BIN)/python -m tpulint.dev test-change

PYTEST := -m pytest -q -n auto --dist loadgroup

unit: .venv/.for-test
	$(call counted,unit) $(PYTEST) --ignore tests/verify --ignore tests/evidence --ignore tests/proof

# Two parts that take long and that few changes concern: each is run anew when one of its files is newer than
# the last run that passed.
RUNTIME := runtime/src runtime/tests
VERIFIER := $(addprefix tpulint/,verify evidence proof testing.py fixture.py) runtime/src \
	tests/verify tests/evidence tests/proof
all_in = $(shell find $(1) -not -name '__pycache__' -not -name '*.pyc')

runtime verifier: %: .venv/.passed-%

# In processes of its own: entering torchax changes torch for every test behind it.
.venv/.passed-runtime: .venv/.for-test $(call all_in,$(RUNTIME))
	$(BIN)/python $(PYTEST) runtime/tests
	@touch $@

.venv/.passed-verifier: .venv/.for-test $(call all_in,$(VERIFIER))
	$(call counted,verifier) $(PYTEST) tests/verify tests/evidence tests/proof
	@touch $@

# Executes the cases that changed, and a sample; see docs/testing.md. Updates evidence.lock, except in
# continuous integration, where an outdated lock fails.
verify: .venv/.for-test
	$(BIN)/tpulint verify-rules --locked $(if $(CI),,--update-lock) --quiet --timeout 300

# Cases with an environment of their own, which fixtures/environments/ pins; see docs/testing.md. JAX alone needs none.
.venv-%/.installed: fixtures/environments/%.txt
	rm -rf $(@D) && $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --requirement $<
	@touch $@

verify-jax: .venv/.for-test
	$(BIN)/python -m tpulint.dev verify-in jax

verify-%: .venv/.for-test .venv-%/.installed
	$(BIN)/python -m tpulint.dev verify-in $*

.PRECIOUS: .venv-%/.installed

lines: .venv/.for-test
	@$(BIN)/coverage combine --quiet --keep --data-file=.coverage_data/lines .coverage_data/*/
	@for part in tpulint rules; do \
		echo "$$($(BIN)/coverage report --data-file=.coverage_data/lines --include="$$part/*" \
			--precision=1 --format=total) % of the lines of $$part/ were run"; done

# Only their sources are read, so nothing that they need is installed.
.oracle/.installed: tests/oracle/requirements.txt | .venv/bin/python
	rm -rf .oracle
	$(PIP) install --quiet --no-deps --target .oracle --requirement $<
	@touch $@

matrix: .venv/.for-test
	$(BIN)/python runtime/matrix.py

score: .venv/.for-test .oracle/.installed
	$(BIN)/python tests/oracle/score.py $(SCORE)

evidence: .venv/.for-test
	$(BIN)/tpulint verify-rules --update-lock --timeout 300 --output-format json >.evidence.json || test $$? -eq 1
	$(BIN)/python -m tpulint.dev evidence .evidence.json && rm .evidence.json

benchmark: .venv/.for-test
	$(BIN)/python tests/benchmarks/benchmark.py $(BENCHMARK)

# On a GPU, install JAX for it into .venv first: .venv/bin/pip install 'jax[cuda13]==0.10.2'
accelerator-benchmark: .venv/.for-test
	$(BIN)/python benchmarks/accelerator/measure.py $(ACCELERATOR)

corpus: .venv/.for-test
	$(BIN)/python tests/corpus/corpus.py $(CORPUS)

# `check` exits 1 when it finds something and `fix --diff` when it would change something: here both do.
# The two launchers also make torchvision work beside a CPU build of torch; see tpulint/verify.
demo: .venv/.for-demo
	@echo '=== tpulint check $(PROGRAM)'
	@$(BIN)/tpulint check $(PROGRAM) || test $$? -eq 1
	@echo; echo '=== tpulint fix --unsafe-fixes --diff $(PROGRAM)'
	@$(BIN)/tpulint fix --unsafe-fixes --diff $(PROGRAM) || test $$? -eq 1
	@echo; echo '=== tpulint fix --unsafe-fixes .demo/image_processing (a copy)'
	@rm -rf .demo && mkdir .demo && cp -R $(PROGRAM) .demo/ && echo torch >.demo/requirements.txt
	@$(BIN)/tpulint fix --unsafe-fixes .demo/image_processing
	@echo; echo '=== the original, on plain CPU torch'
	@$(BIN)/python -m tpulint.verify.reference $(PROGRAM)/before.py 2>.demo/original.log \
		>.demo/original.txt || { cat .demo/original.log; exit 1; }
	@cat .demo/original.txt
	@echo; echo '=== the fixed copy, under torchax'
	@$(BIN)/python -m tpulint.verify.on_torchax .demo/record .demo/image_processing/before.py \
		2>.demo/fixed.log >.demo/fixed.txt || { cat .demo/fixed.log; exit 1; }
	@cat .demo/fixed.txt
	@echo; diff .demo/original.txt .demo/fixed.txt && \
		echo "Both printed the same; torchax: $$($(BIN)/python -c 'import pathlib, tpulint.verify.record as r; print(r.read(pathlib.Path(".demo/record")))')."

clean:
	rm -rf .coverage_data .demo .corpus .benchmark .oracle .tpulint_cache .mypy_cache .ruff_cache .pytest_cache build dist *.egg-info
