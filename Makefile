# Everything a contributor runs. CI runs the same targets (.ci/run), so there is no second truth.

# Run by "go run tool@version": no go.mod of ours requires a tool, so no user downloads one.
GOFUMPT       := mvdan.cc/gofumpt@v0.12.0
STATICCHECK   := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

# For example: make test TESTFLAGS='-count=3 -run TestRenew'; make bench BENCHTIME=1x
TESTFLAGS ?=
BENCHTIME ?= 1s

# A clone that belongs to somebody else (a container, a CI volume) must build too.
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false)

# The tools' own caches stay beside Go's.
GOCACHE := $(shell go env GOCACHE 2>/dev/null)
export GOLANGCI_LINT_CACHE ?= $(GOCACHE)/golangci-lint
export STATICCHECK_CACHE   ?= $(GOCACHE)/staticcheck

# Runs $(1) in the folder of each module of go.work.
in_each_module = go list -m -f '{{.Dir}}' | while read -r module; do echo "$(1)  ($${module\#\#*/})"; (cd "$$module" && $(1)) </dev/null || exit 1; done

.DEFAULT_GOAL := help
.PHONY: help test check fmt-check vet staticcheck rules tidy-check lint cross bench cover fmt deps deps-go deps-bench

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# One package after the other: many of them have real processes and servers, and judge whether something happened in time.
test: deps ## run the tests of all modules with the race detector, in random order
	CGO_ENABLED=1 go test work -race -shuffle=on -p=1 -timeout=10m $(TESTFLAGS)

check: fmt-check vet staticcheck rules tidy-check lint cross ## run all that a change must pass beside the tests

bench: deps-bench ## run the benchmarks and compare the start of "picket run" with flock's
	@echo "== Library: time, bytes and allocations of one operation"
	go test -run '^$$' -bench . -benchmem -benchtime=$(BENCHTIME) ./...
	@echo "== Command line: the start of a child under picket run, beside flock(1)"
	cd cmd/picket && go test -run '^$$' -bench . -benchtime=$(BENCHTIME) ./...

cover: deps ## run the tests and print which share of the code they reach
	CGO_ENABLED=1 go test work -coverpkg=github.com/picket-go/picket/... -coverprofile=coverage.out
	@go tool cover -func=coverage.out | tail -1

fmt: deps-go ## format all Go files
	go run $(GOFUMPT) -w .

fmt-check: deps-go ## check the format of all Go files
	@files=$$(go run $(GOFUMPT) -l .) || exit 1; \
	if [ -n "$$files" ]; then printf 'Not formatted, run "make fmt":\n%s\n' "$$files" >&2; exit 1; fi

vet: deps-go ## run go vet on all modules
	go vet work

staticcheck: deps-go ## run staticcheck on all modules
	go run $(STATICCHECK) work

lint: deps-go ## run golangci-lint, with .golangci.yml, on all modules
	@$(call in_each_module,go run $(GOLANGCI_LINT) run --allow-parallel-runners)

rules: deps-go ## check what may import what, and what a source file may contain
	go test -count=1 -run '^Test(Import|Source)Rules$$' .

tidy-check: deps-go ## check that each go.mod is what "go mod tidy" makes of it
	@$(call in_each_module,GOWORK=off go mod tidy -diff)

cross: deps-go ## build for every platform, and vet the tests for each system
	@set -e; for platform in $(PLATFORMS); do \
		export CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/}; \
		echo "go build work  ($$platform)"; go build work; \
		case $$platform in *amd64) echo "go vet work  ($$platform)"; go vet work;; esac; \
	done

deps: deps-go ## install what the tests need beside Go, or say how
	@.ci/need "A C compiler" "gcc libc6-dev" sh -c "echo '#include <stdlib.h>' | $$(go env CC) -E -"
	@.ci/need redis-server redis-server sh -c 'redis-server --version || valkey-server --version'

deps-bench: deps-go
	@.ci/need flock util-linux flock --version

deps-go:
	@command -v go >/dev/null || { echo 'Go 1.26 or newer is missing: https://go.dev/dl/' >&2; exit 1; }
