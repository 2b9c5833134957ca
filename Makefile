# The habits of this project, one target each. `make help` lists them.
PYTHON ?= python3.11
VENV ?= .venv
EXTRAS ?= dev-all,fuzz
BIN := $(VENV)/bin
FUZZ_SECONDS ?= 600
SEEDS ?= 2000
KILLS ?= 200
DEATHS ?= 20
MESSAGES ?= 1000000
MINUTES ?= 30
QUICK := $(addprefix tests/unit/,expression model protocol record settings test_fastjson.py)

.PHONY: help venv check format quick test test-all-pythons sim integration interop fuzz bench bench-codec bench-remoting \
        spark spark-kills spark-changes spark-small-batches spark-versions \
        bench-nameserver bench-client bench-store bench-spark bench-versus bench-figures bench-overload bench-size \
        pages surface docs dist sbom reproducible audit release-check new-user judges matrix broker-deaths replication-copies soak hostile clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/firearrow: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $(BIN)/firearrow

venv: $(BIN)/firearrow ## make the virtual environment, pinned; EXTRAS=dev leaves out Spark, lake tables and tools of releases

check: venv ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: venv ## put the code into the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

quick: venv ## unit tests of the pure packages: an answer within 10 s
	PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(BIN)/pytest -p pytest_timeout $(QUICK)

test: venv ## unit, property, scenario and architecture tests
	$(BIN)/pytest -n 2 tests/unit tests/property tests/scenario tests/architecture

test-all-pythons: ## unit and property tests on Python 3.11, 3.12 and 3.13
	TEST_TURN=all .ci/each-python

sim: venv ## simulated clusters and the door conformance suites
	$(BIN)/pytest -n 2 --maxschedchunk=1 tests/simulation

integration: venv ## real sockets, files and processes of ours
	$(BIN)/pytest tests/integration

judges: venv ## install Apache's servers and the stock clients (cached outside the tree)
	$(BIN)/python -m judges install

matrix: judges ## every stock client in every row, at our broker and at Apache's; writes the page of the documentation
	$(BIN)/python -m campaigns.broker matrix

replication-copies: judges ## logs of master and slave, ours and Apache's, compared after MESSAGES and kills; resumable
	$(BIN)/python -m campaigns.replication --messages $(MESSAGES) --ledger

broker-deaths: judges ## kills and power cuts of the broker under eight producers and eight consumers (DEATHS each)
	$(BIN)/python -m campaigns.broker kill --deaths $(DEATHS) --ledger
	$(BIN)/python -m campaigns.broker power --deaths $(DEATHS) --ledger

hostile: judges ## hostile clients of every kind beside stock ones; a table, a line of the ledger
	$(BIN)/python -m benchmarks.hostile --access off on --ledger

soak: judges ## our broker under load with deaths, beside Apache's, for MINUTES; a table, a plot, a line of the ledger
	$(BIN)/python -m benchmarks.soak --minutes $(MINUTES) --ledger

interop: judges ## Apache's servers and stock clients against ours
	$(BIN)/pytest tests/interop

spark: venv ## sources, sink, lake tables and jobs in Spark
	$(BIN)/pytest tests/spark

spark-kills: venv ## KILLS kills of driver, executor and broker while a topic is archived; goes on where it stopped
	$(BIN)/python -m tests.spark.kills --points $(KILLS) --directory build/spark-kills --ledger

spark-changes: venv ## KILLS kills while the schema of an archive changes, its tables are typed and have partitions
	$(BIN)/python -m tests.spark.kills --points $(KILLS) --directory build/spark-changes \
	    --formats changing-iceberg,changing-delta --ledger

spark-small-batches: venv ## a day of small batches into Iceberg and Delta, upkeep beside them; goes on where it stopped
	$(BIN)/python -m tests.spark.small_batches --directory build/small-batches --ledger

spark-versions: venv ## the same on other versions of Spark with native Iceberg and Delta
	$(BIN)/python -m tests.spark.versions kills --ledger

fuzz: venv ## the fuzz campaign: every target for FUZZ_SECONDS in all, executions printed
	$(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS)

bench: bench-codec bench-remoting bench-nameserver bench-store ## every benchmark

bench-codec: venv ## microseconds a message of the hot codecs beside bare loops
	$(BIN)/python -m benchmarks.codec

bench-remoting: venv ## requests a second through the remoting server
	$(BIN)/python -m benchmarks.remoting

bench-nameserver: judges ## our name server beside Apache's in one run
	$(BIN)/python -m benchmarks.nameserver

bench-client: judges ## our client beside the other Python clients and Apache's Java client in one run
	$(BIN)/python -m benchmarks.client

bench-versus: judges ## our broker beside Apache's 5.5.0 with stock clients in turns; a table, a plot, a file of figures
	$(BIN)/python -m benchmarks.versus

bench-figures: venv ## the figures that RocketMQ's documents claim, with a plain answer each
	$(BIN)/python -m benchmarks.figures

bench-overload: judges ## our broker beyond its capacity, with idle connections and waiting pulls
	$(BIN)/python -m benchmarks.overload
	$(BIN)/python -m benchmarks.broker.footprint

bench-size: venv ## our broker with 50,000 topics, 400,000 offsets, 2,000 members beside a small one; fails where a limit is broken
	$(BIN)/python -m benchmarks.size

bench-spark: judges ## the Spark sources beside Spark's Kafka connector and Parquet, resumable; a table, a plot, figures
	$(BIN)/python -m benchmarks.spark

bench-store: venv ## the store beside the least that could do the same
	$(BIN)/python -m benchmarks.store

pages: venv ## write the reference pages that are made from the code
	for page in docs/generate/*.py; do $(BIN)/python $$page; done

surface: venv ## write down the public surface, after a change that is meant
	$(BIN)/python -m tests.architecture.surface

docs: venv ## build the documentation, warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

dist: venv ## build wheel and sdist and try them in an empty environment
	.ci/dist

sbom: dist ## the bill of materials of a server, as CycloneDX, into dist/
	$(BIN)/python -m campaigns.supply sbom

reproducible: venv ## wheel and sdist, built twice under other circumstances, must be equal; and dist/, if it is there
	$(BIN)/python -m campaigns.supply reproducible

audit: venv ## known faults of what constraints.txt pins; status 3 says that no data could be had
	$(BIN)/python -m campaigns.supply audit

release-check: dist sbom reproducible ## what must hold before wheel and sdist are uploaded: versions agree, an index would show them
	.ci/release-check

new-user: dist ## README's first five minutes in an empty environment, from the built wheel; PYTHONS="3.12 3.13" for others
	$(BIN)/python -m tests.scenario.newuser dist/*.whl $(PYTHONS)

clean: ## remove what the targets made
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
