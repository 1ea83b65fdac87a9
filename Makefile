# Everything that a person or CI does with this repository is a target of this file;
# `make help` lists them. The tools that the targets need are pinned (tools/go.mod,
# tools/geth/go.mod, package-lock.json, gen/java/pom.xml) and built or fetched into
# .cache/bin and node_modules when a target first asks for them. Go, a C compiler (for
# the race detector), Node.js 20, JDK 17 and Maven have to be there.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

BIN := $(CURDIR)/.cache/bin
# Tests and examples find geth and grpcurl there.
export PATH := $(BIN):$(PATH)
export npm_config_update_notifier := false

BUF := node_modules/.bin/buf
# npm writes this file last: it stands for all that package-lock.json lists.
NPM := node_modules/.package-lock.json
# Fetched together with protoc-gen-grpc-java, and stands for both.
JAVA_PLUGINS := $(BIN)/protoc
# Every folder that holds generated files.
GENERATED := gen third_party store/internal docs
# The Go modules that callers use, apart from ours.
GO_CLIENTS := gen/go clients/go examples/go
# .mvn/jvm.config says to the rest of what is said here that a log is no terminal: the library of colours resets them at the end of each run.
MAVEN := mvn --batch-mode --quiet -Dstyle.color=never
# What `make breaking` compares the contract with.
BASE ?= main
# Handed to the program by `make run` and `make demo`.
ARGS ?=

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: tools
tools: $(NPM) $(JAVA_PLUGINS) $(addprefix $(BIN)/,sqlc staticcheck grpcurl gotestsum) ## Build and fetch the pinned tools

.PHONY: generate
generate: $(NPM) $(JAVA_PLUGINS) $(BIN)/sqlc ## Regenerate all generated code and documents
	go run -C tools ./validateproto ../third_party
	$(BUF) generate
	$(BUF) generate --template buf.gen.clients.yaml
	$(BUF) generate --template buf.gen.docs.yaml
	go run -C tools ./openapi ../.cache/openapi/fencepost.swagger.yaml ../docs/openapi.yaml
	@# sqlc leaves the file of a deleted query file behind, so all go first; not before it said that it can write them.
	sqlc compile
	rm -f store/internal/db/*.sql.go
	sqlc generate
	go generate ./...

.PHONY: verify
verify: generate breaking ## Prove that the committed generated code is current, and that the contract breaks no client
	scripts/verify-clean $(GENERATED)

.PHONY: lint
lint: $(NPM) $(BIN)/staticcheck ## Check form, usual mistakes, words and commit subjects
	@# vet and staticcheck find what matters at a tenth of the cost of a bundle of linters, and
	@# staticcheck.conf gives a reason for every check that is off.
	unformatted=$$(find . \( -name node_modules -o -name .cache \) -prune -o -name '*.go' -print | xargs gofmt -s -l); \
	  if [[ -n $$unformatted ]]; then echo "gofmt -s would change: $$unformatted" >&2; exit 1; fi
	for module in . $(GO_CLIENTS); do \
	  (cd $$module && go mod tidy -diff && go vet ./... && staticcheck ./...); \
	done
	go vet -C tools ./...
	$(BUF) lint
	@# Our own files only: third_party is as its generator prints it.
	$(BUF) format --diff --exit-code proto
	for script in scripts/* .ci/run; do bash -n "$$script"; done
	go test -C tools ./arrows ./prose
	go run -C tools ./prose
	scripts/commits $(BASE)

.PHONY: breaking
breaking: $(NPM) ## Compare the contract with the last one on BASE (main) for breaking changes
	BUF=$(BUF) scripts/breaking $(BASE)

.PHONY: build
build: ## Build the programs into bin/
	go build -o bin/ ./cmd/...

# The simulation runs without the race detector: its scheduler goes by quiescence, of which the detector knows nothing.
.PHONY: test
test: $(NPM) $(BIN)/gotestsum ## Run every test but e2e with the race detector, and build the clients
	PG_BIN=$$(scripts/setup); export PG_BIN; \
	  packages=$$(go list ./... | grep -v -e '/e2e' -e '/sim$$'); \
	  gotestsum --format standard-quiet -- -race -timeout 15m $$packages; \
	  gotestsum --format standard-quiet -- -timeout 8m ./sim
	$(MAKE) clients

.PHONY: clients
clients: $(NPM) ## Build the client packages of all languages
	npm run --silent build --workspace gen/ts
	npm run --silent build --workspace clients/ts
	npm run --silent check --workspace clients/ts
	@# The class path is for programs among the tests, which are run without Maven.
	$(MAVEN) --file clients/java/all.xml --projects :fencepost-client --also-make test-compile \
	  org.apache.maven.plugins:maven-dependency-plugin:3.11.0:build-classpath -Dmdep.outputFile=target/classpath

.PHONY: clients-test
clients-test: clients $(BIN)/gotestsum ## Test the clients of all languages against live nodes
	PG_BIN=$$(scripts/setup); export PG_BIN; \
	  gotestsum --format testname -- -count=1 -timeout 10m -run '^TestClients' ./e2e

.PHONY: e2e
e2e: $(NPM) $(BIN)/gotestsum $(BIN)/geth $(BIN)/grpcurl ## Run the end-to-end tests but those of the clients: real processes, a real chain, minutes
	@# -count=1: what these tests depend on is more than what Go's test cache looks at. -parallel: most of them wait most of the time.
	PG_BIN=$$(scripts/setup); export PG_BIN; \
	  gotestsum --format testname -- -count=1 -parallel 8 -timeout 30m -skip '^TestClients' ./e2e/...

# The run to repeat, without the faults that DROP names (numbers, separated by commas); 0 is none in particular.
SEED ?= 0
DROP ?=
# How many runs, and the first of them.
SEEDS ?= 200
FIRST ?= 1

.PHONY: sim
sim: ## Simulate a cluster under faults: SEEDS runs from FIRST on, or again the one of SEED, with all of its steps
	PG_BIN=$$(scripts/setup); export PG_BIN; \
	  go test -count=1 -timeout 30m ./sim -run '^TestSeeds$$' -args -seed=$(SEED) -drop=$(DROP) -seeds=$(SEEDS) -first=$(FIRST)

.PHONY: sim-long
sim-long: ## Simulate for hours, and let every mutant be caught: SEEDS runs from FIRST on, 20000 unless said otherwise
	PG_BIN=$$(scripts/setup); export PG_BIN; \
	  go test -count=1 -timeout 24h ./sim -args -mutants -seeds=$(if $(filter file,$(origin SEEDS)),20000,$(SEEDS)) -first=$(FIRST)

.PHONY: faults
faults: ## Print what becomes of a transaction under each fault of a send at each moment
	PG_BIN=$$(scripts/setup); export PG_BIN; go test -count=1 -v -run '^TestFaultMatrix$$' ./engine | grep -v -e '^=== ' -e '^ *time='

# How long; with which faults in which order (a number; unset: any); against which chain: embedded or geth; in which lease.mode (unset: basic, and
# worker-queue on geth).
CHAOS_TIME ?= 10m
CHAOS_SEED ?=
CHAOS_CHAIN ?= embedded
CHAOS_MODE ?=

.PHONY: chaos
chaos: $(BIN)/gotestsum $(BIN)/geth ## Hurt three nodes under load at random for CHAOS_TIME (10m), and see that nothing is lost or doubled
	PG_BIN=$$(scripts/setup); export PG_BIN CHAOS_TIME=$(CHAOS_TIME) CHAOS_SEED=$(CHAOS_SEED) CHAOS_MODE=$(CHAOS_MODE); \
	  gotestsum --format standard-verbose -- -count=1 -timeout 12h -run '^TestChaos/^$(CHAOS_CHAIN)$$' ./e2e

# How much: counts, small (under two minutes), watchers, growth or full. ROUNDS: how often; unset is by size. ONLY: an expression for the names of scenarios, which ARGS=-list prints.
SIZE ?= small
ROUNDS ?= 0
ONLY ?=
# The node is a program of its own, linked as `fencepost` is: what is measured of it is the product's.
BUILD_BENCH = go build -o bin/bench ./bench && go build -o bin/bench-node ./bench/node

.PHONY: bench
bench: ## Measure this machine's limits and Fencepost in one run, and print the ratios; SIZE=full takes long, SIZE=watchers has 10,000 of them, SIZE=growth compares small ledgers with large ones, ONLY=NAME runs a part, ARGS=-list tells which parts there are, ARGS=-json prints JSON
	$(BUILD_BENCH)
	PG_BIN=$$(scripts/setup); export PG_BIN; exec bin/bench -size $(SIZE) -rounds $(ROUNDS) -only '$(ONLY)' $(ARGS)

.PHONY: bench-check
bench-check: ## Count what a transaction costs (statements, commits, WAL, calls) and compare it with bench/budgets.yaml
	$(BUILD_BENCH)
	PG_BIN=$$(scripts/setup); export PG_BIN; exec bin/bench -size counts -check $(ARGS)

# For how long.
FUZZTIME ?= 1m

.PHONY: fuzz
fuzz: ## Send made-up requests of every RPC through all that is checked without the ledger, for FUZZTIME (1m)
	go test -run '^$$' -fuzz '^FuzzRequest$$' -fuzztime $(FUZZTIME) ./server

.PHONY: run
run: $(BIN)/grpcurl ## Start PostgreSQL, a development chain and a node in one process, until Ctrl-C
	@# Built and then executed, not `go run`: signals and the exit code are the program's own. The guide that it prints uses fencepost and grpcurl.
	go build -o bin/ ./cmd/...
	PG_BIN=$$(scripts/setup); export PG_BIN; exec bin/fencepost-dev $(ARGS)

.PHONY: demo
demo: ## Send calls of a contract through the node that `make run` started, and compare chain and ledger
	go build -o bin/ ./examples/demo
	exec bin/demo $(ARGS)

.PHONY: clean
clean: ## Remove what was built; the tools and the data of `make run` stay
	rm -rf bin {gen,clients}/java/target {gen,clients}/ts/dist

$(NPM): package.json package-lock.json gen/ts/package.json clients/ts/package.json
	@# No package needs to run code of its own when it is installed.
	npm ci --ignore-scripts --no-audit --no-fund --loglevel=error

$(JAVA_PLUGINS): gen/java/pom.xml scripts/java-plugins
	scripts/java-plugins $(BIN)

$(BIN)/sqlc: tools/go.mod tools/go.sum
	@# Without cgo it parses SQL with the same PostgreSQL parser as WebAssembly: same output, a third of the build.
	CGO_ENABLED=0 go build -C tools -o $@ github.com/sqlc-dev/sqlc/cmd/sqlc

$(BIN)/staticcheck: tools/go.mod tools/go.sum
	go build -C tools -o $@ honnef.co/go/tools/cmd/staticcheck

$(BIN)/grpcurl: tools/go.mod tools/go.sum
	go build -C tools -o $@ github.com/fullstorydev/grpcurl/cmd/grpcurl

$(BIN)/gotestsum: tools/go.mod tools/go.sum
	go build -C tools -o $@ gotest.tools/gotestsum

# A module of its own, so that what only the geth command needs is not in the go.mod that
# our users inherit. Its versions equal the main module's: most of it is compiled already.
$(BIN)/geth: tools/geth/go.mod tools/geth/go.sum
	go build -C tools/geth -o $@ github.com/ethereum/go-ethereum/cmd/geth
