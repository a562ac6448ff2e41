.PHONY: help run test test-vm test-arm64 conformance fuzz bench bench-vm compare check build dist image reproducible release cluster e2e

help: ## Show this list
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 20

run: ## Build a small cluster out of network namespaces and show traffic being steered in it
	cargo build --release -p pointsman-agent -p pointsman-demo
	$(or $(CARGO_TARGET_DIR),target)/release/pointsman-demo

test: ## Format, lints and all tests; ends with "N passed, N failed, N skipped"
	@scripts/test

test-vm: ## The tests that are about the kernel on stock Debian kernels under QEMU, with SCTP; SHORT=1 for a sample
	@scripts/test-vm $(if $(SHORT),--short)

test-arm64: ## The program for arm64 and the unit tests of its crates, under emulation
	@scripts/test-arm64

conformance: ## The agent against a real etcd and kube-apiserver, and beside upstream's kube-proxy; needs Go; KUBERNETES=1.31 for the oldest release
	@scripts/conformance

fuzz: ## Feed hostile input to every parser and to the rules, with libFuzzer: SECONDS=n in all, TARGET=name for one
	@SECONDS_TOTAL=$(or $(SECONDS),600) TARGET=$(TARGET) scripts/fuzz

bench: ## Measure loading and changing services in the kernel of this machine; make bench -- --check: fail if a limit is missed
	cargo run --release -p pointsman-bench -- $(filter --check,$(MAKECMDGOALS)) --kube-proxy "$$(scripts/dist | tail -n 1)"

.PHONY: --check
--check: # Of bench
	@:

bench-vm: ## Measure 10,000 open connections in mode userspace under QEMU, where the limit of open files can be raised
	cargo build --release -p pointsman-agent -p pointsman-bench
	POINTSMAN_PATIENCE=10 scripts/vm/run --seconds 1800 $(or $(CARGO_TARGET_DIR),target)/release/bench --only crowd --check \
		--kube-proxy $(or $(CARGO_TARGET_DIR),target)/release/kube-proxy

compare: ## Measure this kube-proxy and upstream's on one control plane, MODE=nftables, iptables or ipvs; fills docs/comparison*
	scripts/compare

check: ## Format, lints and the checks of the repository itself, without the other tests
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test -p pointsman-checks

build: ## Build target/release/kube-proxy
	cargo build --release -p pointsman-agent

dist: ## Build the program that ships: static, small, its symbol names in a file beside it
	@scripts/dist

image: ## Write the container images as OCI archives into target/image, without Docker; ARCH=amd64 for one architecture
	@scripts/image $(ARCH)

reproducible: ## Build the images twice at different paths and compare them; ARCH=arm64 for another architecture
	@scripts/reproducible $(ARCH)

release: ## Everything that a release consists of, into target/release-VERSION; ARCH=amd64 for one architecture
	@scripts/release $(ARCH)

cluster: ## Three real nodes on this machine with Pointsman installed by its chart, until Ctrl-C; needs root and Go
	@scripts/cluster up

e2e: ## Upstream's tests of the service proxy on real nodes, ours and upstream's; MODE=nftables, PROXY=ours, ONLY="Services should"
	@scripts/e2e
