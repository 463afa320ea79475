# Firebreak. `make help` lists what there is.

# A semantic version also where there is no tag yet.
VERSION ?= $(shell git describe --tags --match 'v*' --dirty 2>/dev/null || echo v0.0.0-dev.g$$(git rev-parse --short HEAD 2>/dev/null || echo unknown))
DATE    ?= $(shell git log -1 --format=%cI 2>/dev/null || echo 1970-01-01T00:00:00Z)
COMMIT  ?= $(shell git rev-parse --short HEAD 2>/dev/null)
LDFLAGS := -s -w \
	-X firebreakdns.io/firebreak/plugin/pkg/protocol/version.version=$(VERSION) \
	-X github.com/coredns/coredns/coremain.GitCommit=$(COMMIT)
GOBUILD := CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)'

# What runs in several goroutines over shared state; the rest is pure.
RACE := ./plugin/... ./controller/fleet/... ./controller/standalone/... ./test/calm

export GOFLAGS ?= -mod=readonly

.PHONY: help build image demo test soak bench chaos cluster lint clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

build: ## the three programs, in bin/
	@mkdir -p bin
	$(GOBUILD) -o bin/coredns ./build/coredns
	$(GOBUILD) -o bin/firebreak-controller ./build/controller
	$(GOBUILD) -o bin/firebreak ./build/firebreak

image: ## the DNS server's container image, for amd64 and arm64, in dist/; the same commit makes the same bytes
	@mkdir -p dist
	GOOS=linux GOARCH=amd64 $(GOBUILD) -o dist/coredns-amd64 ./build/coredns
	GOOS=linux GOARCH=arm64 $(GOBUILD) -o dist/coredns-arm64 ./build/coredns
	go run ./build/image -o dist/coredns-$(VERSION).tar -version $(VERSION) -revision '$(COMMIT)' -date $(DATE) \
		amd64=dist/coredns-amd64 arm64=dist/coredns-arm64
	@ls -l dist/coredns-$(VERSION).tar

demo: build ## the main job on this machine, in a minute
	bin/firebreak demo

test: ## every test that can run here; says what it skipped
	@test/run $(RACE)

soak: cluster ## what is long by nature: ten clusters, long drills of real resolvers, real waits, the node cache's latencies; as root
	FIREBREAK_SOAK=1 go test -count=1 -v -timeout 60m -run 'Soak|Long' ./test/cluster ./test/stubs ./test/e2e
	FIREBREAK_SOAK=1 go test -count=1 -v -p 1 ./test/calm ./test/wire ./test/nodelocal
	FIREBREAK_SOAK=1 go test -count=1 -v -timeout 20m -run TestInstall ./test/chart

bench: ## what an answer costs, beside other servers, into docs/performance.md: 35 quiet minutes; as root
	go run ./test/bench -install -docs docs/performance.md

chaos: ## one DNS server of four dies, three ways, into docs/performance.md: 8 minutes; as root
	go run ./test/avalanche -docs docs/performance.md

cluster: ## the programs of the test cluster, built once into the cache
	go run ./test/cluster build

lint: ## golangci-lint, which has to be installed
	golangci-lint run ./...

clean: ## away with what was built
	rm -rf bin dist
