# One entry for people and the build server. `make demo` and `make test` do all the set-up they need.
.DEFAULT_GOAL := help
.PHONY: help setup demo test cluster zookeeper check bench chaos messages samples requirements clients spark sim traces reauth docs format

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
KERBEROS := $(VENV)/.kerberos
QUICK := not peer and not spark and not crash and not slow and not cluster and not zookeeper
SEED ?= 0
SEEDS ?= 1000

help: ## say what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 14

$(STAMP): pyproject.toml requirements-dev.lock
	python3 scripts/make_venv.py $(VENV)
	touch $@

$(KERBEROS): $(STAMP) requirements-kerberos.lock
	sh scripts/need.sh gcc krb5-config python3-config
	CFLAGS=-O0 $(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-kerberos.lock
	touch $@

setup: $(STAMP) ## make the virtual environment with everything in it

demo: $(STAMP) ## the main job on real data: a secured node, 336,776 flights, two Connect workers, a lake, a report
	sh scripts/need.sh java
	$(BIN)/barnabas demo

test: $(STAMP) $(KERBEROS) ## every test, real Kafka, Spark and Kerberos included
	sh scripts/need.sh java javac mvn kcat krb5kdc kadmin.local kinit sasl-gssapi
	$(BIN)/python -m pytest -p no:cacheprovider

cluster: $(STAMP) ## of the tests those of several nodes under load, killed, paused, and beside Apache Kafka's
	sh scripts/need.sh java javac mvn kcat
	$(BIN)/python -m pytest -p no:cacheprovider -m cluster

zookeeper: $(STAMP) $(KERBEROS) ## of the tests those that want a real ZooKeeper: its client, the migration tool, brokers in ZooKeeper mode
	sh scripts/need.sh java javac mvn krb5kdc kadmin.local kinit sasl-gssapi
	$(BIN)/python -m pytest -p no:cacheprovider -m zookeeper

check: $(STAMP) ## the inner loop: format, lint, types, imports, quick tests
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -n 2 -m "$(QUICK)" --durations=3

format: $(STAMP) ## format and fix what can be fixed
	$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

bench: $(STAMP) ## measure against Apache Kafka in the same run; writes docs/benchmarks.md and the README's table
	sh scripts/need.sh java mvn
	$(BIN)/python -m bench

messages: $(STAMP) ## write the message modules anew from the definitions in Kafka's jars
	sh scripts/need.sh java mvn
	$(BIN)/python -m tools.regenerate

samples: $(STAMP) ## write samples of this version's files into tests/samples, for later versions to read
	$(BIN)/python -m tools.write_samples

requirements: $(STAMP) ## print each requirement with the tests that prove it, into docs/status.md
	$(BIN)/python tools/requirements_status.py

reauth: $(STAMP) ## run the clients of others through `barnabas reauth-check`; writes docs/reauthentication.md
	sh scripts/need.sh java javac mvn kcat
	$(BIN)/python -m tools.reauth_table

docs: $(STAMP) ## write the configuration reference anew from its table
	$(BIN)/python tools/configuration_reference.py

clients: $(STAMP) ## real clients and Kafka's tools against a node of ours
	sh scripts/need.sh java javac mvn kcat
	$(BIN)/python -m pytest tests/clients

spark: $(STAMP) ## the Spark source and sink, and the demo
	sh scripts/need.sh java
	$(BIN)/python -m pytest tests/spark tests/demo

sim: $(STAMP) ## seeded simulations, SEEDS seeds from SEED on
	BARNABAS_SEED=$(SEED) BARNABAS_SEEDS=$(SEEDS) $(BIN)/python -m pytest -q -m sim

chaos: $(STAMP) ## kill, pause and part the nodes of a cluster for CHAOS_MINUTES (10) while clients work, from CHAOS_SEED; CHAOS_LOAD=loops: transactions
	$(BIN)/python -m tests.chaos

traces: $(STAMP) ## rewrite the expected halves of tests/traces
	BARNABAS_REWRITE_TRACES=1 $(BIN)/python -m pytest -q tests -k trace
