# Reeve: build, run and test. `make help` lists the targets.
#
# One fixed set of build flags for the desktop keeps the cgo cache warm.

VERSION  := $(shell sed -n 's/^const Version = "\(.*\)"/\1/p' assets/version.go)
LDFLAGS  := -s -w
GOFLAGS_ := -trimpath -ldflags "$(LDFLAGS)"
BIN      := bin
CACHE    := .cache
AGENTS   := $(CACHE)/agents


.PHONY: help build run test test-unit test-e2e test-providers test-mutants test-service test-crash test-fuzz test-packages packages bench deps deps-build deps-test deps-packages agents more-agents lint cross icons clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

build: deps-build ## build bin/reeve and bin/reeve-desktop
	CGO_ENABLED=0 go build $(GOFLAGS_) -o $(BIN)/reeve ./cmd/reeve
	go build $(GOFLAGS_) -o $(BIN)/reeve-desktop ./cmd/reeve-desktop

run: build ## start everything with private state and offer the demo mission
	@./packaging/try.sh $(BIN)

deps-build:
	@./packaging/deps.sh build

deps-test: deps-build
	@./packaging/deps.sh test

agents: $(AGENTS)/.installed ## install the pinned agent programs that tests run

$(AGENTS)/.installed: cmd/e2e/agents/package.json cmd/e2e/agents/package-lock.json
	@mkdir -p $(AGENTS)
	cp $^ $(AGENTS)/
	cd $(AGENTS) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

more-agents: $(AGENTS)/providers/.installed ## install the further pinned agent programs of test-providers

$(AGENTS)/providers/.installed: cmd/e2e/agents/providers/package.json cmd/e2e/agents/providers/package-lock.json
	@mkdir -p $(AGENTS)/providers
	cp $^ $(AGENTS)/providers/
	cd $(AGENTS)/providers && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

test: deps-test agents lint cross ## everything that has to pass, with one line of totals at the end
	@./packaging/test.sh all

test-unit: ## the tests that need no display and no agent programs
	@./packaging/test.sh unit

test-e2e: deps-test agents ## real binaries, real agents, a real desktop
	@./packaging/test.sh e2e

test-providers: deps-test agents more-agents ## every scenario with every real agent program, and the table of them
	@./packaging/test.sh providers

test-mutants: deps-test ## every safety rule has a patch that must turn its own test red
	@./packaging/mutants.sh

test-service: deps-test ## the installed service below a real systemd user manager, from install to uninstall
	@./packaging/test-service.sh

test-crash: deps-test ## the kill matrix (every fault point, victim and phase), and power cut at every sync
	REEVE_TEST_CRASH=all go test -count=1 -timeout 40m -parallel 3 -v -run 'TestCrash$$|TestReadopt64' ./cmd/e2e
	REEVE_TEST_CRASH=all go test -count=1 -timeout 30m -v -run 'PowerLoss' ./service/internal/private ./service/internal/runlog ./service/internal/store

FUZZTIME ?= 20s
test-fuzz: ## every fuzz target for FUZZTIME each
	@./packaging/fuzz.sh $(FUZZTIME)

deps-packages:
	@./packaging/deps.sh packages

packages: deps-packages ## build what this machine can build into dist/: Linux packages, the Windows installer, macOS
	@./packaging/packages.sh

test-packages: deps-packages ## install, use, upgrade and remove the packages in dist/ (needs root)
	@./packaging/test-packages.sh

bench: agents ## measure, as ratios within one run
	@./packaging/bench.sh

lint: ## formatting and vet
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "gofmt would change:"; echo "$$out"; exit 1; }
	go vet ./...

cross: ## reeve must build without cgo for every platform
	@set -e; for os in linux darwin windows; do for arch in amd64 arm64; do \
	  echo "reeve for $$os/$$arch"; GOOS=$$os GOARCH=$$arch CGO_ENABLED=0 go build -o /dev/null ./cmd/reeve; done; done

icons: ## make the PNG icons from their SVG sources
	go run ./packaging/icons/generate

clean:
	rm -rf $(BIN) $(CACHE) dist
