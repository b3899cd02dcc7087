# `make demo` and `make test` set up a virtual environment in .venv by themselves.
PYTHON ?= python3
BIN := .venv/bin

# Frameworks whose extractors and adapters are tested in environments of their own: not all can be installed together.
FRAMEWORKS ?= $(subst _,-,$(filter-out python,$(notdir $(patsubst %/,%,$(wildcard guardagent/frameworks/[a-z]*/)))))

# `make test PART=policy` runs one room, PART="policy log" two.
PARTS := $(sort $(foreach file,$(wildcard tests/*/test_*.py tests/*/*/test_*.py),$(word 2,$(subst /, ,$(file)))))
ifneq ($(filter-out $(PARTS),$(PART)),)
$(error PART names no room: $(filter-out $(PARTS),$(PART)); expected one or more of: $(PARTS))
endif
ROOMS := $(or $(addprefix tests/,$(PART)),tests)

# Tests start many processes, each of which would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

# A third of an installation is the compilation of modules that no test imports.
export PIP_NO_COMPILE = 1

.PHONY: demo test test-all test-slow test-frameworks test-frameworks-oldest test-frameworks-newest test-hosts-real test-engines test-model-engines docs wheel lint format clean

demo: .venv/core
	$(BIN)/guardagent demo

LINT_TESTS = tests/test_words.py tests/test_house.py

# `lint` has run its tests.
test: lint
	$(BIN)/pytest -n 2 -m 'not slow' $(LINT_TESTS:%=--ignore=%) $(ROOMS)

test-all: test test-slow test-generation test-frameworks test-engines test-model-engines

# Properties run a second time, with fifteen times as many examples. Those of FRAMEWORKS run in test-frameworks.
test-slow: .venv-dev-all/ready
	.venv-dev-all/bin/pytest -n 2 -m 'slow or hypothesis' --hypothesis-profile=long \
	  $(foreach framework,$(FRAMEWORKS),--ignore=tests/frameworks/$(subst -,_,$(framework))) $(ROOMS)

# Constrained generation and its endpoint need torch; no other tests do.
GENERATION_TESTS = tests/generation/local tests/generation/batch tests/server/completions tests/bench/test_conformance.py \
  tests/bench/test_tau_generation.py
test-generation: .venv-generation/ready
	.venv-generation/bin/pip install --quiet --disable-pip-version-check -e '.[generation,generation-dev]'
	OMP_NUM_THREADS=1 .venv-generation/bin/pytest -n 2 -m 'slow or hypothesis' --hypothesis-profile=long $(GENERATION_TESTS)

test-frameworks: $(FRAMEWORKS:%=test-framework-%)

# With the server, whose guards the adapters also ask.
test-framework-%: .venv-%/ready
	.venv-$*/bin/pip install --quiet --disable-pip-version-check -e '.[$*,$*-dev,server]'
	.venv-$*/bin/pytest -p no:xdist -W default --hypothesis-profile=long tests/frameworks/$(subst -,_,$*)

# The same with the oldest versions that the adapters were tried with.
test-frameworks-oldest: $(FRAMEWORKS:%=test-oldest-framework-%)

test-oldest-framework-%: .venv-%/ready
	test -d .venv-$*-oldest || $(PYTHON) -m venv .venv-$*-oldest
	.venv-$*-oldest/bin/pip install --quiet --disable-pip-version-check -e '.[$*,$*-dev,server]' pytest hypothesis \
	  $$(.venv-$*/bin/python -m tests.frameworks.oldest_versions $*)
	.venv-$*-oldest/bin/pytest -p no:xdist -W default tests/frameworks/$(subst -,_,$*)

# The same with the newest releases. It prints which of them moved past what the adapter was tried with.
test-frameworks-newest: $(FRAMEWORKS:%=test-newest-framework-%)

test-newest-framework-%:
	test -d .venv-$*-newest || $(PYTHON) -m venv .venv-$*-newest
	.venv-$*-newest/bin/pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager \
	  -e '.[$*,$*-dev,server]' pytest hypothesis
	.venv-$*-newest/bin/python -m tests.frameworks.newest_versions $*
	.venv-$*-newest/bin/pytest -p no:xdist -W default tests/frameworks/$(subst -,_,$*)

# The hooks in the newest programs of coding agents, against a scripted model. It prints their versions.
HOST_PACKAGES ?= @anthropic-ai/claude-code @openai/codex @google/gemini-cli @qwen-code/qwen-code @github/copilot

test-hosts-real: .venv-hosts/ready
	.venv-hosts/bin/pip install --quiet --disable-pip-version-check -e '.[hooks,mcp]'
	for package in $(HOST_PACKAGES); do \
	  npm install --prefix .venv-hosts --silent --no-audit --no-fund $$package@latest || echo "not installed: $$package"; done
	npm ls --prefix .venv-hosts --depth=0 || true
	GUARDAGENT_REAL_HOSTS=$(CURDIR)/.venv-hosts .venv-hosts/bin/pytest -rs -p no:xdist -W default tests/hooks/test_hosts_real.py

# The engines of an audit over tables, in the same way, with solver rules; Spark needs Java. Ray ends the process of its
# driver, without a word, if it loses a process of its own: without a report, the tests run once more.
ENGINE_TESTS = .venv-$*/bin/pytest -p no:xdist -W default --capture=sys --junitxml=build/engine-$*.xml \
  tests/batch/arrow/engines/test_$*.py
test-engines: test-engine-duckdb test-engine-spark test-engine-ray

test-engine-%: .venv-%/ready
	.venv-$*/bin/pip install --quiet --disable-pip-version-check -e '.[$*,solver]'
	rm -f build/engine-$*.xml
	$(ENGINE_TESTS) || { test ! -e build/engine-$*.xml && $(ENGINE_TESTS); }

# Engines of local models, likewise.
test-model-engines: test-model-engine-llama-cpp test-model-engine-vllm

test-model-engine-%: .venv-%/ready
	.venv-$*/bin/pytest -p no:xdist -W default tests/generation/engines/test_$(subst -,_,$*).py

# It is compiled, which takes minutes.
.venv-llama-cpp/ready: export CMAKE_ARGS ?= -DGGML_NATIVE=OFF -DLLAMA_CURL=OFF -DMTMD_BUILD=OFF

# Only vLLM's interface: its kernels, and most of what it needs, are for GPUs.
test-model-engine-vllm: export VLLM_TARGET_DEVICE = cpu
.venv-vllm/ready: pyproject.toml
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/pip install --quiet --disable-pip-version-check --no-deps vllm==0.33.0
	.venv-vllm/bin/pip install --quiet --disable-pip-version-check -e '.[solver]' pytest hypothesis \
	  torch==2.13.0 'transformers>=5.16.1,<5.21' 'llguidance>=1.7,<1.8' $(VLLM_IMPORTS)
	@touch $@

VLLM_IMPORTS = aiohttp blake3 cachetools cbor2 cloudpickle fastapi jsonschema msgspec openai openai-harmony \
  partial-json-parser pillow prometheus_client psutil py-cpuinfo pybase64 pydantic pyzmq regex requests six uvloop xgrammar

.venv-%/ready: pyproject.toml
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/pip install --quiet --disable-pip-version-check -e '.[$*]' pytest hypothesis
	@touch $@

.PRECIOUS: .venv-%/ready

# The site, in build/site; a link or an anchor that leads nowhere is an error.
docs: .venv-docs/ready
	.venv-docs/bin/python -m guardagent.cli.reference docs/commands
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet

# One file in dist/, for machines without a checkout.
wheel: .venv/python
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -q -p no:xdist $(LINT_TESTS)

format: .venv/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; name one with PYTHON=... (this is $$($(PYTHON) --version))"; exit 2; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/core: .venv/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/dev: .venv/core
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

clean:
	rm -rf .venv .venv-* build dist .import_linter_cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
