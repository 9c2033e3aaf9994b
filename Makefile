# Works with GNU make 3.81 (macOS). `make demo` and `make test` do all set-up by themselves.
PYTHON := .venv/bin/python
# With compiled files, which some machines forbid: each of the tests' processes loads all tests.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(PYTHON) -m pytest -n auto --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup demo view test test-long test-all test-vllm test-verl docs test-docs smoke chaos bench fuzz mutations rl-example lint format doctor lock clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

setup: ## Make or repair the environment (nothing to do: no output)
	@bash scripts/setup.sh

demo: setup ## Run the demo; options: make demo PROVIDER=anthropic ARGS="--help"
	@$(PYTHON) scripts/demo.py $(if $(PROVIDER),--provider $(PROVIDER)) $(ARGS)

view: setup ## Look at the newest rollouts; options: make view ROLLOUTS=results/run.jsonl ARGS="--port 8080"
	@$(PYTHON) -m browser_gym view $(ROLLOUTS) $(ARGS)

test: setup ## Run the tests on all cores; options: make test ARGS="-n 0 -k chromium"
	@$(PYTEST) -m "not long" $(ARGS)

test-long: setup ## Run the tests that make test leaves out; options: make test-long ARGS="-k chaos"
	@$(PYTEST) -m long $(ARGS)

test-all: test test-long test-docs ## Run all tests and the commands of the documentation

test-vllm: setup ## Run episodes with the real vLLM, into results/vllm.json; makes a vLLM (4 GB) unless URL=… MODEL=…
	@$(PYTHON) -m scripts.test_vllm $(if $(URL),--url $(URL)) $(if $(MODEL),--model $(MODEL)) $(ARGS)

test-verl: setup ## Test the recipe for verl with verl itself, in an environment of its own
	@bash recipes/verl/make_environment.sh
	@cache/envs/verl/bin/python -m pytest -c recipes/verl/tests/verl.ini --confcutdir recipes/verl \
		recipes/verl/tests $(ARGS)

docs: setup ## Build the documentation, into results/docs
	@$(PYTHON) -m scripts.docs.reference
	@$(PYTHON) -m sphinx --fail-on-warning --keep-going --fresh-env --quiet docs results/docs
	@echo "results/docs/index.html"

test-docs: setup ## Run the commands of the documentation; options: make test-docs PAGES="docs/tutorial.md"
	@$(PYTHON) -m scripts.docs.run $(PAGES)

smoke: setup ## Check a running environment without a model: make smoke URL=http://127.0.0.1:PORT
	@$(PYTHON) scripts/smoke.py $(URL) $(ARGS)

chaos: setup ## Run 300 episodes while everything fails, into results/chaos.json
	@$(PYTHON) -m benchmarks.chaos $(ARGS)

bench: setup ## Measure against baselines, into results/bench.json; options: make bench ARGS="--only seeds"
	@$(PYTHON) -m benchmarks.bench $(ARGS)

fuzz: setup ## Send 20,000 malformed requests, into results/fuzz.json; options: make fuzz ARGS="--seed 2"
	@$(PYTHON) scripts/fuzz.py $(ARGS)

mutations: setup ## Damage 100,000 replies of each open-weight family, into results/mutations.json
	@$(PYTHON) scripts/mutations.py $(ARGS)

rl-example: setup ## Train a tiny policy in real browsers, into results/rl_example.json
	@$(PYTHON) examples/reinforce_cpu.py $(ARGS)

lint: setup ## Check format, lint and types
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m ruff check
	$(PYTHON) -m pyright --pythonpath $(PYTHON)

format: setup ## Format the code and fix what can be fixed safely
	$(PYTHON) -m ruff format
	$(PYTHON) -m ruff check --fix

doctor: ## Show what this machine has and what is missing
	@bash scripts/setup.sh doctor

# nemo-gym asks for 3.13.14, though it runs on any 3.13: resolve for that one.
lock: ## Pin the newest allowed versions in requirements.lock
	@uv=$$(bash scripts/setup.sh uv) && "$$uv" pip compile pyproject.toml --group dev --group docs --universal \
		--python-version 3.13.14 --upgrade --no-annotate --no-emit-index-url \
		--custom-compile-command "make lock" --quiet --output-file requirements.lock

clean: ## Remove the environment and caches
	rm -rf .venv .venvs .setup .pytest_cache .ruff_cache .hypothesis cache/apps cache/envs
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
