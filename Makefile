# Every target does the set-up it needs; stamps inside the environments keep it from being done twice.
# make PYTHON=/path/to/python3 chooses the interpreter, otherwise the first of 3.11 or later is taken.

ifndef PYTHON
PYTHON = $(eval PYTHON := $$(shell sh tools/find_python.sh))$(PYTHON)
endif
VENV := .venv
COMPILED := .venv-compiled
SPARK := .venv-spark
FUZZ := .venv-fuzz
DIST := .venv-dist
AUDIT := .venv-audit
FASTSTREAM := .venv-faststream
# The tests of a broker are in FastStream's repository and in no package of it. The id of the commit is their checksum.
FASTSTREAM_COMMIT := 7c9a125dfdf20cc45b64aac26b53559057443da1
FASTSTREAM_SOURCE ?= https://github.com/ag2ai/faststream
# So are kombu's of a transport.
KOMBU_COMMIT := 9ee8595b835c77b4f04cfb54b40b5d446f985a35
KOMBU_SOURCE ?= https://github.com/celery/kombu
BIN := $(VENV)/bin
# Python compiles what is imported, and keeps it; pip would compile all modules of all packages, most of them for nothing.
LOCKED := -m pip install --quiet --disable-pip-version-check --require-hashes --no-compile
unexport PYTHONDONTWRITEBYTECODE
PARALLEL ?= 2
# gcc's level of optimisation for the compiled build; .ci/run has 1, at which gcc takes half of its processor time.
OPTIMIZE ?= 3
# Tests wait more than they compute, so more of them than there are processors run at a time. On the compiled build they
# wait most: for foreign programs and services; on the pure one the compiler runs beside them.
COMPILED_TESTERS ?= 6
TESTERS ?= 4
PYTEST_ARGS ?=
PURE :=
COMPILED_TESTS := --compiled-all
DEMO_ARGS ?=
DIST_ARGS ?=
AUDIT_ARGS ?=
BENCH_ARGS ?=
FUZZ_ARGS ?=
SOAK_PENDING ?= 1000000
SOAK_SPARK_KILLS ?= 100
FUZZ_INPUTS ?= 1000000
SOURCES := $(shell find src -name '*.py')
CODE := src tests tools $(wildcard examples)

.DEFAULT_GOAL := help
.PHONY: help venv amqp audit client-conformance compiled dist helm environments faststream spark peers peers-maven lint format docs test test-all test-pure test-compiled demo bench bench-bridges bench-client bench-floors bench-http bench-instructions bench-management bench-network bench-rights bench-scale bench-selectors bench-spark bench-start flame-graph soak soak-bridges soak-load soak-spark fuzz fuzz-http fuzz-requests kombu measure lock clean console-pictures bench-console soak-console

help:  ## say what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(VENV)/.ready  ## .venv: pure Python, editable, with everything that tests and lint need

$(VENV)/.ready: pyproject.toml requirements/build.txt requirements/runtime.txt requirements/test.txt requirements/lint.txt
	@test -n "$(PYTHON)"
	"$(PYTHON)" tools/make_environment.py $(VENV)
	$(BIN)/python $(LOCKED) -r requirements/pip.txt
	$(BIN)/python $(LOCKED) -r requirements/build.txt -r requirements/runtime.txt -r requirements/test.txt -r requirements/lint.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-index --no-build-isolation --editable .
	@touch $@

compiled: $(COMPILED)/.built  ## .venv-compiled: the wheel with the hot packages compiled by mypyc

$(COMPILED)/.ready: $(VENV)/.ready requirements/demo.txt
	"$(PYTHON)" tools/make_environment.py $(COMPILED)
	$(COMPILED)/bin/python $(LOCKED) -r requirements/pip.txt
	$(COMPILED)/bin/python $(LOCKED) -r requirements/runtime.txt -r requirements/test.txt -r requirements/demo.txt
	@touch $@

# One such file: a build with another level is made again.
$(COMPILED)/.level-$(OPTIMIZE): $(COMPILED)/.ready
	@rm -f $(COMPILED)/.level-*
	@touch $@

$(COMPILED)/.built: $(COMPILED)/.level-$(OPTIMIZE) tools/build_compiled.sh tools/compile_hook.py tools/compile_modules.py tools/mend_c.py $(SOURCES)
	bash tools/build_compiled.sh $(BIN)/python $(COMPILED)/bin/python $(OPTIMIZE)
	@touch $@

dist: $(DIST)/.ready  ## sdist, pure wheel and compiled wheels in dist, each tried in a fresh environment (DIST_ARGS=--no-smoke)
	$(DIST)/bin/python tools/build_dist.py $(DIST_ARGS)

$(DIST)/.ready: requirements/pip.txt requirements/dist.txt
	@test -n "$(PYTHON)"
	"$(PYTHON)" tools/make_environment.py $(DIST)
	$(DIST)/bin/python $(LOCKED) -r requirements/pip.txt
	$(DIST)/bin/python $(LOCKED) -r requirements/dist.txt
	@touch $@

# Not part of lint: the answer depends on the day. --strict, because what could not be looked up is no good answer.
audit: $(AUDIT)/.ready  ## out/sbom.json: all packages of an installation with all extras; then known faults of them
	@mkdir -p out
	$(AUDIT)/bin/cyclonedx-py environment $(AUDIT)/installed/bin/python --pyproject pyproject.toml --mc-type application \
	    --output-reproducible --output-file out/sbom.json
	$(AUDIT)/bin/pip-audit --strict --progress-spinner off --desc on --path \
	    "$$($(AUDIT)/installed/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" $(AUDIT_ARGS)

$(AUDIT)/.ready: requirements/pip.txt requirements/audit.txt requirements/extras.txt
	@test -n "$(PYTHON)"
	"$(PYTHON)" tools/make_environment.py $(AUDIT)
	"$(PYTHON)" tools/make_environment.py $(AUDIT)/installed
	$(AUDIT)/bin/python $(LOCKED) -r requirements/pip.txt
	$(AUDIT)/bin/python $(LOCKED) -r requirements/audit.txt
	$(AUDIT)/installed/bin/python $(LOCKED) -r requirements/pip.txt
	$(AUDIT)/installed/bin/python $(LOCKED) -r requirements/extras.txt
	@touch $@

# The version that tests/vectors/helm was rendered with.
helm:  ## build/helm/helm from its source (go), for the tests of the Helm chart in `make test-all`
	GOBIN="$(CURDIR)/build/helm" go install helm.sh/helm/v3/cmd/helm@v3.22.0

$(VENV)/.demo: $(VENV)/.ready requirements/demo.txt
	$(BIN)/python $(LOCKED) -r requirements/demo.txt
	@touch $@

$(VENV)/.pipelines: $(VENV)/.ready requirements/pipelines.txt
	$(BIN)/python $(LOCKED) -r requirements/pipelines.txt
	@touch $@

# Both environments, where they are there: Proton is compiled once, and pip keeps the wheel.
amqp: $(VENV)/.ready  ## Qpid Proton for tests of bridges over AMQP 1.0; needs cc and Python.h
	@set -e; for environment in $(VENV) $(COMPILED); do if [ -x $$environment/bin/python ]; then \
	    $$environment/bin/python $(LOCKED) -r requirements/amqp.txt; fi; done

$(VENV)/.bench: $(VENV)/.ready requirements/bench.txt
	$(BIN)/python $(LOCKED) -r requirements/bench.txt
	@touch $@

$(COMPILED)/.bench: $(COMPILED)/.ready requirements/bench.txt
	$(COMPILED)/bin/python $(LOCKED) -r requirements/bench.txt
	@touch $@

faststream: venv $(FASTSTREAM)/.ready build/faststream/.git/$(FASTSTREAM_COMMIT)  ## FastStream's own tests of a broker, from its repository (FASTSTREAM_SOURCE), with Spanwire's
	$(BIN)/python -m pytest -q tests/interop/test_faststream_suite.py $(PYTEST_ARGS)

$(FASTSTREAM)/.ready: requirements/pip.txt requirements/build.txt requirements/faststream.txt
	@test -n "$(PYTHON)"
	"$(PYTHON)" tools/make_environment.py $(FASTSTREAM)
	$(FASTSTREAM)/bin/python $(LOCKED) -r requirements/pip.txt
	$(FASTSTREAM)/bin/python $(LOCKED) -r requirements/build.txt -r requirements/faststream.txt
	$(FASTSTREAM)/bin/python -m pip install --quiet --no-deps --no-index --no-build-isolation --editable .
	@touch $@

build/faststream/.git/$(FASTSTREAM_COMMIT):
	git init -q build/faststream
	git -C build/faststream fetch -q --depth 1 "$(FASTSTREAM_SOURCE)" $(FASTSTREAM_COMMIT)
	git -C build/faststream checkout -q $(FASTSTREAM_COMMIT) -- tests
	@touch $@

kombu: venv build/kombu/.git/$(KOMBU_COMMIT)  ## kombu's own tests of a transport, from its repository (KOMBU_SOURCE), with Spanwire's
	$(BIN)/python -m pytest -q tests/interop/test_kombu_suite.py $(PYTEST_ARGS)

build/kombu/.git/$(KOMBU_COMMIT):
	git init -q build/kombu
	git -C build/kombu fetch -q --depth 1 "$(KOMBU_SOURCE)" $(KOMBU_COMMIT)
	git -C build/kombu checkout -q $(KOMBU_COMMIT) -- t/__init__.py t/integration/__init__.py t/integration/common.py
	@touch $@

spark: $(SPARK)/.ready  ## .venv-spark: PySpark, once for both builds, and a Java where there is none

$(SPARK)/.ready: requirements/pip.txt requirements/spark.txt requirements/java.txt
	@test -n "$(PYTHON)"
	"$(PYTHON)" tools/make_environment.py $(SPARK)
	$(SPARK)/bin/python $(LOCKED) -r requirements/pip.txt
	$(SPARK)/bin/python $(LOCKED) -r requirements/spark.txt
	@PYTHONPATH=src $(SPARK)/bin/python tools/find_java.py 2>/dev/null || { \
	    $(SPARK)/bin/python $(LOCKED) -r requirements/java.txt && PYTHONPATH=src $(SPARK)/bin/python tools/find_java.py; }
	@touch $@

$(VENV)/.spark: $(VENV)/.ready $(SPARK)/.ready
	$(BIN)/python tools/link_environment.py $(SPARK)
	@touch $@

# Half a minute once, and five seconds less at each start of Spark in tests.
$(VENV)/.spark-classes: $(VENV)/.spark
	$(BIN)/python -m tests.support.spark_classes
	@touch $@

$(COMPILED)/.spark: $(COMPILED)/.ready $(SPARK)/.ready
	$(COMPILED)/bin/python tools/link_environment.py $(SPARK)
	@touch $@

# Each step takes one processor: `make -j 2 lint environments` does them beside lint, whose longest step takes one, too.
environments: peers $(VENV)/.spark-classes $(COMPILED)/.spark  ## all that the tests of both builds need, but for the compiled build itself

peers:  ## the brokers and clients that tests talk to; root installs them with apt
	@test -n "$(PYTHON)"
	@bash tools/peers.sh "$(PYTHON)"

peers-maven:  ## the peers that only Maven Central has (mvn), for `make test-all` and `make bench-bridges`: activemq-http, the client of ActiveMQ 6, Narayana
	mvn -q -B -f tests/interop/java_http/pom.xml dependency:copy-dependencies \
	    -DoutputDirectory="$(CURDIR)/build/peers/activemq-http"
	mvn -q -B -f tests/interop/java_jakarta/pom.xml dependency:copy-dependencies \
	    -DoutputDirectory="$(CURDIR)/build/peers/activemq-jakarta"
	mvn -q -B -f tests/bench/narayana/pom.xml dependency:copy-dependencies \
	    -DoutputDirectory="$(CURDIR)/build/peers/narayana"

lint: venv docs  ## format, ruff, mypy, import contracts, forbidden constructs, generated files, the documentation and its language
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/lint_forbidden.py
	$(BIN)/python tools/lint_docs.py
	$(BIN)/python tools/lint_prose.py
	@set -e; for generator in $(wildcard tools/generate_*.py); do \
	    echo "$$generator --check"; $(BIN)/python $$generator --check; done

$(VENV)/.docs: $(VENV)/.ready requirements/docs.txt
	$(BIN)/python $(LOCKED) -r requirements/docs.txt
	@touch $@

docs: $(VENV)/.docs  ## the documentation as a site in build/site; a broken link or anchor is an error
	$(BIN)/zensical build --clean --strict

format: venv  ## rewrite the code as ruff formats it
	$(BIN)/ruff check --fix-only --select I $(CODE)
	$(BIN)/ruff format $(CODE)

# Foreign programs and Spark see the same of both builds, and take longest: on the pure build a few such tests will do.
# Tests of tools run on the pure build alone: they see no build. tools/test_lists has the two lists.
# The tests on the pure build wait for sockets, processes and timers, and the compiler takes what they leave. It is as
# urgent as they are: else it is not done when they are, and its last steps take one processor alone.
test: peers venv  ## all tests on the compiled build; all on the pure one, too, but of those with foreign peers or Spark a few
	@if reason=$$(sh tools/find_compiler.sh $(BIN)/python); then \
	    echo "tests on the pure build, few with foreign peers or Spark (make test-all: all); it is compiled meanwhile" \
	    && mkdir -p out && { $(MAKE) --no-print-directory compiled > out/compile.log 2>&1 & compiling=$$!; } \
	    && { $(MAKE) --no-print-directory test-pure PURE=--smoke || { wait $$compiling; exit 1; }; } \
	    && { wait $$compiling || { cat out/compile.log; exit 1; }; } \
	    && echo "tests on the compiled build" \
	    && $(MAKE) --no-print-directory test-compiled COMPILED_TESTS=--compiled; \
	else \
	    echo "tests on the pure build; those on the compiled build are skipped: $$reason"; \
	    $(MAKE) --no-print-directory test-pure && test "$$REQUIRE_PEERS" != 1; \
	fi

test-all: peers venv  ## every test on both builds, of packages without a compiled module on the pure one alone
	@$(MAKE) --no-print-directory test-pure
	@$(MAKE) --no-print-directory test-compiled

test-pure: venv $(VENV)/.spark-classes  ## all tests on the pure build
	@bash tools/run_tests.sh $(BIN)/python $(TESTERS) $(PURE) $(PYTEST_ARGS)

test-compiled: compiled $(COMPILED)/.spark $(VENV)/.spark-classes  ## all tests on the compiled build, but of packages without a compiled module
	@bash tools/run_tests.sh $(COMPILED)/bin/python $(COMPILED_TESTERS) $(COMPILED_TESTS) $(PYTEST_ARGS)

# $(call with_best_build,ARGUMENTS): the compiled build where there is a compiler, else the pure one; says which.
define with_best_build
	@if reason=$$(sh tools/find_compiler.sh $(BIN)/python); then \
	    $(MAKE) --no-print-directory compiled && echo "running on the compiled build" \
	    && exec $(COMPILED)/bin/python $(1); \
	else \
	    $(MAKE) --no-print-directory $(VENV)/.demo && echo "running on the pure build: $$reason" \
	    && exec $(BIN)/python $(1); \
	fi
endef

demo: peers $(VENV)/.spark  ## real prices over two brokers, one of which is killed, to consumers and into Spark; counts what arrived
	@if sh tools/find_compiler.sh $(BIN)/python >/dev/null; then $(MAKE) --no-print-directory $(COMPILED)/.spark; fi
	$(call with_best_build,examples/stocks/demo.py $(DEMO_ARGS))

bench: peers venv  ## a page with charts in out/bench: throughput, CPU, latency beside Classic, Artemis, RabbitMQ, or of your own broker (BENCH_ARGS)
	$(call with_best_build,-m tests.bench.run $(BENCH_ARGS))

bench-floors: venv  ## the least that this machine takes for a round trip over loopback and for a sync of the disk
	$(BIN)/python -m tests.bench.floors $(BENCH_ARGS)

bench-spark: peers $(VENV)/.spark  ## queues through Spark on local[2], beside other ways (BENCH_ARGS="--only memory": ten minutes)
	@if sh tools/find_compiler.sh $(BIN)/python >/dev/null; then $(MAKE) --no-print-directory $(COMPILED)/.spark; fi
	$(call with_best_build,-m tests.bench.spark.load $(BENCH_ARGS))

bench-bridges: peers venv  ## bridges between two brokers beside a loop in Java and Artemis' bridge, the latency that they add, idle ones
	$(call with_best_build,-m tests.bench.bridges $(BENCH_ARGS))

bench-selectors: peers venv  ## a thousand consumers with distinct selectors on one queue, beside ActiveMQ Classic
	$(call with_best_build,-m tests.bench.selectors $(BENCH_ARGS))

bench-network: peers venv  ## a chain of three brokers beside ActiveMQ Classic's, demand in networks of up to 500, advisories
	$(call with_best_build,-m tests.bench.networks.chain $(BENCH_ARGS))
	$(call with_best_build,-m tests.bench.networks.scale $(BENCH_ARGS))

bench-rights: venv  ## what users and rights cost, in alternating pairs of runs
	$(call with_best_build,-m tests.bench.rights $(BENCH_ARGS))

bench-client: peers venv $(VENV)/.bench  ## the Python client beside stomp.py, stompman and the Java client
	@if sh tools/find_compiler.sh $(BIN)/python >/dev/null; then $(MAKE) --no-print-directory $(COMPILED)/.bench; fi
	$(call with_best_build,-m tests.bench.clients.peers $(BENCH_ARGS))

bench-http: peers venv  ## STOMP over WebSocket and the servlets for messages over HTTP, beside ActiveMQ Classic
	$(call with_best_build,-m tests.bench.http_ports $(BENCH_ARGS))

bench-moves: venv  ## the time of a persistent send while a million messages are moved and brought back
	$(call with_best_build,-m tests.bench.moves $(BENCH_ARGS))

bench-start: venv  ## a broker's start and client commands: processor time, instructions, modules
	$(call with_best_build,-m tests.bench.start_up $(BENCH_ARGS))

bench-instructions: venv  ## instructions of the broker for a message, counted by valgrind
	$(call with_best_build,-m tests.bench.instructions $(BENCH_ARGS))

bench-management: venv  ## what open pages, scrapes, slow sockets and long lists of the web process cost a broker
	$(call with_best_build,-m tests.bench.management $(BENCH_ARGS))

bench-console: peers venv  ## pages of the web console in Chromium: bytes, milliseconds, large maps; ten tasks beside the consoles of ActiveMQ and RabbitMQ
	$(call with_best_build,-m tests.bench.console.budgets $(BENCH_ARGS))
	$(call with_best_build,-m tests.bench.console.comparison)

console-pictures: venv  ## a picture of each page of the web console at five widths, light and dark, in out/console
	$(call with_best_build,-m tests.bench.console.pictures out/console $(BENCH_ARGS))

bench-scale: venv  ## what a message costs with more connections, destinations, consumers, pending messages, bytes: one picture in out
	$(call with_best_build,-m tests.bench.scale $(BENCH_ARGS))

flame-graph: venv $(VENV)/.bench  ## out/flame-graph.svg: where the broker's processor time goes (BENCH_ARGS="--workload 'STOMP queue'")
	@if sh tools/find_compiler.sh $(BIN)/python >/dev/null; then $(MAKE) --no-print-directory $(COMPILED)/.bench; fi
	$(call with_best_build,-m tests.bench.flame_graph $(BENCH_ARGS))

measure: venv  ## import time, generated lines and language of docstrings (MEASURE_ARGS=--compile: time to compile, too)
	$(BIN)/python tools/measure_build.py $(MEASURE_ARGS)

client-conformance: peers venv  ## the client's conformance suite against all brokers that can be had
	SPANWIRE_ALL_BROKERS=1 $(BIN)/python -m pytest -rs tests/interop/test_client_scenarios.py $(PYTEST_ARGS)

soak: peers venv  ## a night of every fault with large counts, a million inputs for each reader, hours of load; goes on where it ended (SOAK_ARGS=--status)
	$(call with_best_build,-m tests.soak.night $(SOAK_ARGS))

soak-bridges: peers venv  ## 100 kills of bridges, sources and targets in each quality of service; goes on where it ended (SOAK_ARGS=--fresh)
	$(BIN)/python -m tests.soak.bridge_kills $(SOAK_ARGS)

soak-spark: peers $(VENV)/.spark $(VENV)/.pipelines  ## kills of everything that takes part in moving messages with Spark, 100 in each mode on a cluster; goes on where they ended (SOAK_ARGS=--fresh)
	SPANWIRE_SPARK_POINTS=all $(BIN)/python -m pytest --timeout 0 -rs tests/spark/test_exactly_once_kills.py \
	    tests/spark/test_route_kill.py tests/spark/test_route_database.py tests/spark/test_route_jars.py \
	    tests/spark/test_network_kills.py tests/spark/test_large_messages.py tests/spark/test_example_processes.py \
	    tests/spark/test_s3_faults.py tests/spark/test_hdfs_faults.py tests/spark/test_pairing.py tests/spark/test_connect.py tests/spark/test_example_jars.py \
	    tests/spark/test_delta_once.py
	$(BIN)/python -m tests.soak.spark_kills --kills $(SOAK_SPARK_KILLS) $(SOAK_ARGS)

soak-load: venv  ## a million pending messages, a kill and a drain; how long one turn takes; synchronous sends; large messages; 10,000 idle connections; 1,000 clients that come back
	$(call with_best_build,-m tests.soak.deep_queue --count $(SOAK_PENDING) --resident-mib 400 --restart-seconds 5)
	$(call with_best_build,-m tests.soak.turns --count $(SOAK_PENDING))
	$(call with_best_build,-m tests.soak.sync_sends --require 500,8000,12000)
	$(call with_best_build,-m tests.soak.large_messages --persistent --count 2)
	$(call with_best_build,-m tests.soak.large_fan_out --openwire 10 --producer openwire --resident-mib 400)
	$(call with_best_build,-m tests.soak.idle_connections --count 10000)
	$(call with_best_build,-m tests.soak.reconnects --clients 1000)

soak-console: venv  ## an hour of open pages in Chromium: memory of pages, web process and broker, minute by minute
	$(call with_best_build,-m tests.soak.open_pages $(SOAK_ARGS))

fuzz-requests: venv  ## a million mutated requests against the web process, with its broker in memory (FUZZ_INPUTS=20000)
	$(BIN)/python -m tests.fuzz.fuzz_requests $(FUZZ_INPUTS)

fuzz-http: venv $(FUZZ)/.ready  ## every route of the HTTP API with requests made from its OpenAPI document
	$(BIN)/python -m tests.fuzz.fuzz_http $(FUZZ)/bin/schemathesis $(FUZZ_ARGS)

$(FUZZ)/.ready: requirements/pip.txt requirements/fuzz.txt
	@test -n "$(PYTHON)"
	"$(PYTHON)" tools/make_environment.py $(FUZZ)
	$(FUZZ)/bin/python $(LOCKED) -r requirements/pip.txt
	$(FUZZ)/bin/python $(LOCKED) -r requirements/fuzz.txt
	@touch $@

fuzz: venv  ## every property-based test with many more examples
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -n $(PARALLEL) --timeout 0 -m hypothesis $(PYTEST_ARGS)

lock:  ## resolve pyproject.toml into requirements/*.txt (LOCK_ARGS=--upgrade for the newest versions)
	"$(PYTHON)" tools/lock_requirements.py $(LOCK_ARGS)

clean:  ## remove environments, caches and what runs leave behind
	rm -rf $(VENV) $(COMPILED) $(SPARK) $(FUZZ) $(FASTSTREAM) $(DIST) $(AUDIT) build dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
