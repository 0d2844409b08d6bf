# Everything a developer does, by name. `make` alone lists it.
# Recipes run in one bash each, with the build's environment from scripts/env.sh.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help

# Where `make run` keeps its data, and where it listens.
DATA_DIR ?= ./wharf-data
LISTEN ?= 127.0.0.1:7070
OPS_LISTEN ?= 127.0.0.1:7080
# How long each fuzz target runs, and which ones (all by default).
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?=
# Which parts `make bench` measures: throughput, group-commit, restart, idle, or all.
BENCH ?= all

##@ Use
.PHONY: run
run: prepare ## build and start a whole broker on 127.0.0.1:7070 (DATA_DIR, LISTEN)
	@source scripts/env.sh
	cargo build --locked --release -p wharf-server --bin wharf
	echo "The wharf program is $$CARGO_TARGET_DIR/release/wharf; \`make install\` puts it on the path."
	exec "$$CARGO_TARGET_DIR/release/wharf" standalone --data-dir "$(DATA_DIR)" --listen "$(LISTEN)" --ops-listen "$(OPS_LISTEN)"

.PHONY: build
build: prepare ## build the release binary and say where it is
	@source scripts/env.sh
	cargo build --locked --release -p wharf-server --bin wharf
	echo "built $$CARGO_TARGET_DIR/release/wharf"

.PHONY: install
install: build ## copy the release binary to PREFIX/bin (default /usr/local)
	@source scripts/env.sh
	install -D -m 0755 "$$CARGO_TARGET_DIR/release/wharf" "$(or $(PREFIX),/usr/local)/bin/wharf"

##@ Check
.PHONY: test
test: prepare ## run every Rust test: unit, property, crash and black-box tests
	@source scripts/env.sh
	cargo build --locked --workspace --bins
	cargo test --locked --workspace --no-fail-fast

.PHONY: fmt
fmt: ## format the sources
	@source scripts/env.sh
	cargo fmt --all

.PHONY: fmt-check
fmt-check: ## check the format without changing anything
	@source scripts/env.sh
	cargo fmt --all --check

.PHONY: lint
lint: prepare ## clippy over everything, warnings are errors
	@source scripts/env.sh
	cargo clippy --locked --workspace --all-targets -- -D warnings

.PHONY: doc
doc: prepare ## build the API documentation, broken links are errors
	@source scripts/env.sh
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps

.PHONY: tidy
tidy: ## the house rules that a machine can check: dependency rules, file sizes, bans
	@source scripts/env.sh
	cargo xtask tidy

.PHONY: proto-lint
proto-lint: ## names, comments and compatibility of the .proto files
	@source scripts/env.sh
	cargo xtask proto-lint

.PHONY: deny
deny: ## licences, bans and sources of the dependencies
	@scripts/install-cargo-deny.sh
	source scripts/env.sh
	cargo deny --locked check bans licenses sources

.PHONY: audit
audit: ## security advisories of the dependencies (fetches the advisory database)
	@scripts/install-cargo-deny.sh
	source scripts/env.sh
	cargo deny --locked check advisories

.PHONY: ci
ci: ## all that CI runs, in its order
	@.ci/run

##@ Long runs
.PHONY: fuzz
fuzz: prepare ## run the fuzz targets (FUZZ_SECONDS each, FUZZ_TARGETS to choose)
	@scripts/fuzz.sh "$(FUZZ_SECONDS)" $(FUZZ_TARGETS)

.PHONY: bench
bench: prepare ## measure the release build against bare limits (BENCH_ARGS)
	@bench/run.sh $(BENCH_ARGS)

.PHONY: crash-states
crash-states: prepare ## enumerate crash states of the log, the long way
	@CRASH_STATES=full scripts/long-tests.sh wharf-log crash_states

.PHONY: kill-campaign
kill-campaign: build ## kill real brokers under load again and again, and check the history
	@KILL_CAMPAIGN=full scripts/long-tests.sh wharf-tests kill_campaign

##@ Other
.PHONY: prepare
prepare: ## install what is missing, fetch the crates, build the RocksDB archive once
	@scripts/prepare.sh

.PHONY: clean
clean: ## remove what cargo built (the RocksDB archive and the tools stay)
	@source scripts/env.sh
	cargo clean

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## "; print "Wharf: a log broker for any gRPC stub.\n\nusage: make TARGET [VARIABLE=value]" }
	/^##@ / { printf "\n%s\n", substr($$0, 5) }
	/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
