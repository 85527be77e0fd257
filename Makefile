# Targets say what they do with "make help".
SHELL := /bin/bash
LAB   := examples/slurm-lab
FUZZTIME ?= 10s
COMPILE  := CGO_ENABLED=0 GOFLAGS=-trimpath go list -export -test -deps ./... >/dev/null # the packages and their tests

.PHONY: help build release demo test test-short test-all test-kill test-vllm test-sglang test-dynamo test-kube test-gpu test-web web web-check bench-web load coverage chaos lab-up lab-down fuzz bench lint golden docs pictures clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/profllm, static, and beside it bin/profllm-nvml where a C compiler is
	CGO_ENABLED=0 go build -trimpath -o bin/profllm ./cmd/profllm
	@.ci/build-nvml bin

release: ## dist/profllm_<version>_linux_{amd64,arm64}.tar.gz, the same bytes for everybody
	@.ci/release dist

demo: build ## the main job on this machine, with a simulated engine
	bin/profllm rehearse

test: ## the tests, on a real Slurm of eight hosts where it can be started (SLURM=0: without)
	@MEANWHILE="$(COMPILE)" .ci/with-lab .ci/test -timeout 30m ./...

test-all: ## everything: each kill, each case, each lab; installs 15 GB and takes hours
	@.ci/run all

test-kill: ## a kill before every change of the disk, not only before one of each kind
	@PROFLLM_KILL_EVERY=1 .ci/test -timeout 120m -run Kill ./pkg/dashboard ./pkg/run ./pkg/store

test-short: ## tests that need neither Slurm nor a load
	@.ci/test -short ./...

test-vllm: build ## the real vLLM on the Slurm lab (installs it once, 7 GB)
	@.ci/test-vllm

test-sglang: ## SGLang's own client and router over simulated servers (installs them once, and the real vLLM)
	@.ci/test-sglang

test-dynamo: ## NVIDIA Dynamo with its mocker, AIPerf, etcd and NATS on the Slurm lab (installs them once, 2 GB)
	@.ci/test-dynamo

test-kube: ## a real API server of Kubernetes with Dynamo's definitions (builds it once, 10 minutes)
	@.ci/test-kube

test-gpu: ## what needs an NVIDIA GPU; .ci/test-gpu build and run carry it to a machine without Go
	@.ci/test-gpu

test-web: ## the page of the dashboard in a headless Chromium (needs Node and Chromium)
	@.ci/test-web

web: ## build the page into pkg/dashboard/dist and pkg/inline/dist (needs Node)
	npm --prefix web ci --no-audit --no-fund
	npm --prefix web run build

coverage: ## statement coverage of the packages that must not lose or falsify results
	@.ci/coverage

web-check: ## fail unless these are what web/ builds
	npm --prefix web ci --no-audit --no-fund
	@.ci/web-check

bench-web: ## RUNS=n CLICKS=n: from a click on a filter to the new picture, in Chromium over made-up runs
	@[[ -d web/node_modules ]] || npm --prefix web ci --no-audit --no-fund
	PROFLLM_BENCH_WEB=1 PROFLLM_BENCH_RUNS=$(RUNS) PROFLLM_BENCH_CLICKS=$(CLICKS) go test ./pkg/dashboard -run '^$$' -bench '^BenchmarkPage$$' -benchtime 1x -timeout 60m -v

load: ## TIME=60s: 32 clients against a dashboard of 100,000 made-up runs
	PROFLLM_DASHBOARD_LOAD=$(or $(TIME),60s) go test ./pkg/dashboard -run 'TestLoad$$' -v -timeout 60m

chaos: ## SEED=n RUNS=n: runs on a Slurm lab of its own, whose daemons, nodes and commands are killed
	@.ci/chaos $(or $(SEED),"") $(or $(RUNS),60)

lab-up: ## start the Slurm lab and say how to use it
	@$(LAB)/up.sh && $(LAB)/env.sh

lab-down: ## stop the Slurm lab
	@$(LAB)/down.sh

fuzz: ## every fuzz target for FUZZTIME
	@.ci/fuzz $(FUZZTIME)

bench: build ## the numbers of the design page, as ratios
	@.ci/bench

lint: ## gofmt, vet, staticcheck, shellcheck, go.mod
	@.ci/lint

golden: ## rewrite golden files, to be read before they are committed
	go test ./pkg/figure ./pkg/render ./pkg/report ./pkg/report/format -update

docs: ## rewrite the generated reference pages, and the output that pages show
	go test ./cmd/profllm -run 'TestReference|TestPagesRun' -update

pictures: build ## the pictures of the documentation, with Chromium
	@.ci/pictures

clean: ## remove what was built
	rm -rf bin dist results
