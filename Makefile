# Needs Go and make, nothing else; tests on the AWS emulators also need Java 17, Maven and Python 3 with
# venv, test/openapi Node 18, tf/check npm besides (as root on Debian they are installed), test/race a C compiler. `make` lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The release that `make dist` makes. The chart and pages name it too; go test -short ./test/dist compares them.
RELEASE := 0.1.0
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# As in the Dockerfile: the same commit, version and Go make the same bytes, wherever that is. Without cgo other modules are linked.
# The build ID stays in, of the same bytes too: by it go build sees that a program is up to date.
LDFLAGS = -s -w -X main.version=$(VERSION)
# grpcnotrace leaves out a part of a library that nothing here uses, and that would keep the linker from removing dead
# code: 52 MB instead of 68.
BUILD = -tags grpcnotrace -trimpath -buildvcs=false -ldflags '$(LDFLAGS)'
PROGRAMS := ./cmd/kinesin ./cmd/kinesin-bench

# Counts the packages that the go command names as it compiles them, and passes on what else it says.
COUNTED = { n=0; while IFS= read -r line; do case $$line in \
	'\#'* | *[:\ ]*) echo "$$line" ;; \
	*) (( ++n % 100 )) || echo "make $@: $$n packages are compiled" ;; \
	esac; done; } >&2

# Tools are built once per version, outside the checkout, for all checkouts.
KINESIN_TOOLS_DIR ?= $(HOME)/.cache/kinesin/tools
GOLANGCI_LINT := $(KINESIN_TOOLS_DIR)/golangci-lint@v2.15.0/golangci-lint
GOVULNCHECK := $(KINESIN_TOOLS_DIR)/govulncheck@v1.9.0/govulncheck
GOTESTSUM := $(KINESIN_TOOLS_DIR)/gotestsum@v1.13.0/gotestsum

# Runs a command while DynamoDB Local and ElasticMQ are there for its tests; tools/emulators pins them.
WITH_AWS_LOCAL := go run ./test/cmd/awslocal

# The suites over real processes want the machine for themselves, so they run apart.
CRASH := ./test/crash
FAULTS := ./test/faults
AWSFAULTS := ./test/awsfaults
BACKLOG := ./test/backlog
E2E := ./test/e2e
CHART := ./test/chart
DIST_TESTS := ./test/dist
KUBE := ./internal/kubelocal ./test/kube
TERRAFORM := ./test/terraform
CRON := ./test/cron
OPENAPI := ./test/openapi
CONFORMANCE := ./test/conformance
# On clusters of processes a machine that stands still for seconds looks like an outage. There a test that failed is run once more, alone,
# and is listed at the end whatever comes of it. Never so where loss and repetition are what is looked for: crash, faults, awsfaults.
TWICE = $(GOTESTSUM) --format standard-verbose --no-color --rerun-fails=1 --rerun-fails-max-failures 3 --rerun-fails-run-root-test
# The provider of the tests of terraform/, a module of its own.
MODULES := terraform/internal/provider
SUPPLY := tools/supply
UNIT = go list ./... | grep -vE '/(test/(chart|crash|dist|faults|awsfaults|e2e|kube|terraform|cron|openapi|conformance|rules)|internal/kubelocal)$$'
# Without debug information test programs link in half the time.
QUICK_LINK := -ldflags=-w
# The garbage collector runs a quarter as often, unless memory gets scarce: that saves a sixth of the CPU of some packages.
QUICK_GC := GOGC=400 GOMEMLIMIT=1GiB
# These take longest: they begin first, so that at the end nothing waits for them alone. The first of them mostly wait.
FIRST := ./test/cost $(BACKLOG) ./internal/node ./test/aws
# What a data race would cost most. Packages that use testing/synctest run on one CPU: on two, timers of one bubble share a context of the
# race detector, which then corrupts memory (golang/go#78156, in Go 1.26). It finds races by order, not by chance meetings, so one CPU will do.
RACE := ./task/... ./internal/access/... ./internal/feature/... ./internal/guard/... ./internal/catalog/... ./internal/lease/... ./partition/... ./store/... ./queue/... ./inbound/... ./scheduler/... \
	./dispatcher/... ./hsc/... ./internal/controller/... ./internal/node/... ./server/... ./target/... ./sdk/...
# These take half of the time of test/race: they begin first, so that none runs alone at the end.
LONGEST := ./internal/node ./scheduler
TEST_IMPORTS = go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' $(RACE)

# The long forms run once with tasks that go straight to workers that wait (true), and once with all of them through their queues.
# The short ones run each scenario one way, and test/crash changes with every kill.
WAYS = $(if $(LONG),$(if $(filter both,$(MATCH)),true false,$(MATCH)),'')

DIST ?= dist
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64

# Settings of single targets: make test/crash KILLS=10, make test/faults MATCH=false, make test/mutants MUTANTS='-only settle'.
# Targets with a long form run the short one with LONG=.
LONG ?= 1
KILLS ?= 100
MATCH ?= both
MUTANTS ?=
SEEDS ?= 2000
SEED ?= 1
ONLY_FAULTS ?= all
ONLY_ORDERS ?= all
CACHED ?=
UNCHECKED ?=
PICTURES ?=
BENCH ?= .
FUZZTIME ?= 30s
DYNAMODB_PORT ?= 8000
SQS_PORT ?= 9324

##@ Use

.PHONY: run
run: build ## build, then watch an embedded server, a worker and a few tasks at work
	bin/kinesin demo

.PHONY: aws-local
aws-local: ## DynamoDB Local and ElasticMQ for trying out kinesin on AWS, until Ctrl-C; listens on all interfaces
	@go run ./test/cmd/awslocal -dynamodb-port $(DYNAMODB_PORT) -sqs-port $(SQS_PORT)

.PHONY: build
build: ## build bin/kinesin, and bin/kinesin-bench, which measures it
	@echo 'make build: builds bin/kinesin and bin/kinesin-bench (the first time some 950 packages: two to six minutes on two cores)'
	@CGO_ENABLED=0 go build -v $(BUILD) -o bin/ $(PROGRAMS) 2>&1 | $(COUNTED)
	@echo 'make build: bin/kinesin bin/kinesin-bench'

.PHONY: install
install: ## install both to where go install puts programs
	CGO_ENABLED=0 go install $(BUILD) $(PROGRAMS)

##@ Test

.PHONY: test
test: ## the tests that a change must pass, some seven minutes; `make ci` runs all
	@echo 'make test: compiles everything first (minutes where nothing is cached), then runs the packages, then real processes.'
	@go list -v -test -export $$($(UNIT)) $(E2E) $(FAULTS) 2>&1 >/dev/null | $(COUNTED) # tests with deadlines fail beside minutes of compiling
	@echo 'make test: runs the packages, those that take longest first.'
	$(QUICK_GC) $(WITH_AWS_LOCAL) go test -vet=off -p 3 $(QUICK_LINK) -shuffle=on $(FIRST) $$($(UNIT)) # make lint vets
	@echo 'make test: runs real processes, which are stopped, killed and cut off.'
	$(MAKE) -j 2 test/e2e test/faults LONG=

# Tests that may run beside each other mostly wait: six at once, on however few CPUs.
# No shuffle, so that what did not change is not run again.
.PHONY: test/quick
test/quick: ## the same without real processes, long runs and fleets in virtual time: for while one works
	go test -short -parallel 6 $(QUICK_LINK) $$(go list ./... | grep -v internal/node$$)

.PHONY: test/race
test/race: ## the core packages under the race detector
	go test -race -short $(QUICK_LINK) -timeout 20m -shuffle=on $$($(TEST_IMPORTS) | grep -v testing/synctest | cut -d' ' -f1)
	go test -race -short $(QUICK_LINK) -timeout 20m -shuffle=on -cpu=1 $(LONGEST) $$($(TEST_IMPORTS) | grep testing/synctest | cut -d' ' -f1)

.PHONY: test/cover
test/cover: ## coverage by package, profile in bin/cover.out
	mkdir -p bin
	go test -short -coverprofile=bin/cover.out $$($(UNIT))
	go tool cover -func=bin/cover.out | tail -n 1

.PHONY: test/mutants
test/mutants: ## breaks the code in hundreds of ways, each of which a test has to notice (MUTANTS='-shard 1/4', '-only lease', '-check')
	go run ./test/cmd/mutants $(MUTANTS)

.PHONY: test/drivers
test/drivers: ## only the store and queue suites, on every driver
	$(WITH_AWS_LOCAL) go test -count=1 -run Conformance ./store/... ./queue/...

.PHONY: test/crash
test/crash: ## kill -9 loop against the real binary under load (KILLS=100); tasks go both ways, in turns
	KINESIN_CRASH_KILLS=$(KILLS) go test -count=1 -timeout 60m -v $(CRASH)

.PHONY: test/faults
test/faults: ## lost, stopped and poisoned workers, lost servers: the long form, both ways, with all figures (MATCH=both)
	for match in $(WAYS); do KINESIN_MATCH=$$match KINESIN_LONG=$(LONG) go test -count=1 -timeout 30m $(if $(LONG),-v -parallel 3) $(FAULTS); done

.PHONY: test/aws/faults
test/aws/faults: ## the same on DynamoDB Local and ElasticMQ, which are stopped, emptied and cut off: the long form, both ways (MATCH=both)
	for match in $(WAYS); do KINESIN_MATCH=$$match KINESIN_LONG=$(LONG) go test -count=1 -timeout 40m $(if $(LONG),-v -parallel 2,-parallel 3) $(AWSFAULTS); done

.PHONY: test/sim
test/sim: ## SEEDS=2000 seeds of a whole fleet in one process, from SEED=1; ONLY_FAULTS=0,3 and ONLY_ORDERS= take parts of a plan
	@nice -n 10 go run ./test/cmd/sim -seeds $(SEEDS) -seed $(SEED) -faults '$(ONLY_FAULTS)' -orders '$(ONLY_ORDERS)'

.PHONY: test/protocol
test/protocol: ## the model of the row protocol: every state of every scenario (two minutes)
	KINESIN_LONG=1 go test -count=1 -timeout 30m -v ./test/protocol

.PHONY: test/backlog
test/backlog: ## a million tasks that wait, 50,000 that run and a million leftover rows in the embedded store: the long form
	KINESIN_LONG=$(LONG) go test -count=1 -timeout 20m -v $(BACKLOG)

.PHONY: test/cron
test/cron: ## when crons fire, against an oracle in Python: ten years of clock changes in all zones (ten minutes)
	KINESIN_LONG=$(LONG) go test -count=1 -timeout 60m -v $(CRON)

.PHONY: test/chart
test/chart: ## the Helm chart as Helm renders it, and the Dockerfile as BuildKit reads it; builds both once, in minutes
	@tools/helm/install >/dev/null && tools/dockerfile/install >/dev/null
	go test -count=1 $(CHART)

.PHONY: test/dist
test/dist: ## make dist for this machine, twice, and what it makes: run (the tutorial), installed, upgraded and removed in root file systems of its own
	cd tools/dist && go vet ./... && go test ./...
	go test -count=1 -timeout 10m $(DIST_TESTS)

.PHONY: test/kube
test/kube: $(GOTESTSUM) ## scheduler pods on a real control plane: scaled, updated, killed, cut off, misconfigured
	$(WITH_AWS_LOCAL) $(TWICE) --packages '$(KUBE)' -- -count=1 -timeout 20m -p 1

.PHONY: tf/check
tf/check: $(GOTESTSUM) ## terraform/: applied for real by terraform, tofu or an OpenTofu that is built; held to the AWS provider's schema and to IAM
	@command -v "$${KINESIN_TERRAFORM:-terraform}" >/dev/null || command -v tofu >/dev/null || tools/tofu/install >/dev/null # minutes, once
	@tools/awsschema/install >/dev/null && tools/moto/install >/dev/null && tools/helm/install >/dev/null
	for dir in $(MODULES); do (cd $$dir && go vet ./... && go test ./...); done
	$(WITH_AWS_LOCAL) $(TWICE) --packages '$(TERRAFORM)' -- -count=1 -timeout 20m -parallel 4

.PHONY: test/e2e
test/e2e: ## what the binary promises at the command line
	go test -count=1 -timeout 10m $(E2E)

.PHONY: test/web
test/web: ## the console in a headless Chromium, which is installed where that may be (PICTURES=docs/images/console: also the pictures of its docs, KINESIN_SHOWCASE_TASKS=2000000: of a large installation)
	@tools/web/install >/dev/null
	cd test/web && KINESIN_PICTURES='$(abspath $(PICTURES))' go test -count=1 -timeout 10m ./...

.PHONY: test/openapi
test/openapi: ## the plain HTTP API against its OpenAPI document: schemathesis with 100 requests of each kind (minutes), and the examples of docs/reference/http.md
	KINESIN_LONG=$(LONG) go test -count=1 -timeout 30m $(if $(LONG),-v) $(OPENAPI)

.PHONY: test/clients
test/clients: build ## the clients in Python and TypeScript (clients), against the server
	KINESIN_BIN=$(abspath bin/kinesin) PYTHONPATH=clients/python PYTHONDONTWRITEBYTECODE=1 "$$(tools/openapi/install)" -m pytest -q -p no:cacheprovider clients/python/tests
	@if node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' && command -v npm >/dev/null; then \
		cd clients/typescript && npm install --no-package-lock --silent && KINESIN_BIN=$(abspath bin/kinesin) npm test && git diff --exit-code --stat dist; \
	else echo 'clients/typescript left out: it needs Node 20 with npm' >&2; fi

.PHONY: test/conformance
test/conformance: ## the clients in Go, Python and TypeScript play the same scenarios (clients/conformance), faults included
	go test -count=1 -timeout 10m $(CONFORMANCE)

.PHONY: arch
arch: ## who may import whom, and pages of docs against the code
	go test -count=1 . ./docs

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME=30s
	@{ git grep -E --untracked '^func Fuzz' -- '*_test.go' || true; } | sed -E 's|^(.*)/[^/]*:func (Fuzz[A-Za-z0-9_]+).*|./\1 \2|' | \
	while read -r dir target; do \
		echo "$$dir $$target"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$dir"; \
	done

##@ Measure

.PHONY: bench/aws
bench/aws: build ## deliver and managed lambdas on DynamoDB Local and ElasticMQ, beside Dynein's figures (five minutes)
	go run ./test/cmd/benchaws -kinesin bin/kinesin

.PHONY: bench/loads
bench/loads: build ## loads of kinesin-bench, each on a server of its own (five minutes)
	@for load in 'insert -n 300000' 'wall -n 60000' 'steady --rate 1000 --duration 10s' 'immediate -n 3000' 'immediate -n 300 --idle-max 500ms' \
		'lambdas -n 100000 --lambdas 1000 --ahead 12s' 'keys -n 60000' 'quota -n 60000' 'procs -n 20000 --workers 200' 'crons -n 10000' \
		'groups -n 20000' 'change -n 20000' 'count -n 200000'; do \
		echo "kinesin-bench $$load"; bin/kinesin-bench $$load 2>/dev/null || exit; echo; \
	done

.PHONY: bench
bench: bench/loads ## loads of kinesin-bench, and benchmarks that match BENCH=., six times, for benchstat
	$(WITH_AWS_LOCAL) go test -run '^$$' -bench '$(BENCH)' -benchmem -count=6 -timeout 60m $$($(UNIT))

.PHONY: bench/smoke
bench/smoke: ## one iteration of every benchmark
	$(WITH_AWS_LOCAL) go test $(QUICK_LINK) -run '^$$' -bench . -benchtime=1x $$($(UNIT))

.PHONY: stats
stats: ## longest files, functions and interfaces; a report, never a failure
	@files=$$(git ls-files -co --exclude-standard '*.go' | xargs grep -L '^// Code generated'); \
	top() { sort -rn | awk 'NR <= 10'; }; \
	echo 'lines per file'; wc -l $$files | grep -v ' total$$' | top; \
	echo 'lines per function'; awk '/^func /{ name = FILENAME ":" FNR; from = FNR } \
		/^}/ && from { print FNR - from + 1, name; from = 0 }' $$files | top; \
	echo 'methods per interface'; awk '/^type .* interface \{$$/{ name = $$2 " " FILENAME; n = 0; in_it = 1; next } \
		/^}/ && in_it { print n, name; in_it = 0 } in_it && /^\t[A-Z][A-Za-z]*\(/{ n++ }' $$files | top

##@ Ship

.PHONY: dist
dist: VERSION := $(RELEASE)
dist: ## dist/: archives, packages, image, formula, SBOMs and checksums of a release (ten minutes; PLATFORMS=linux/amd64: quicker)
	cd tools/dist && go run . -root ../.. -out '$(abspath $(DIST))' -version '$(VERSION)' \
		-time "$${SOURCE_DATE_EPOCH:-$$(git -C ../.. log -1 --format=%ct)}" -platforms '$(PLATFORMS)' -- go build $(BUILD)

.PHONY: sbom
sbom: build ## bin/kinesin.cdx.json: what is linked into bin/kinesin, as CycloneDX
	cd $(SUPPLY) && go run . -root ../.. -version '$(VERSION)' -sbom ../../bin/kinesin.cdx.json ../../bin/kinesin

.PHONY: licenses
licenses: ## THIRD_PARTY_LICENSES: the licences of what is linked into the image's program
	cd $(SUPPLY) && go run . -root ../.. -licenses ../../THIRD_PARTY_LICENSES

.PHONY: check/supply
check/supply: sbom ## the SBOM lists what is linked, under allowed licences; THIRD_PARTY_LICENSES is up to date
	cd $(SUPPLY) && go vet ./... && go test ./... && go run . -root ../.. -licenses ../../THIRD_PARTY_LICENSES -check

.PHONY: check/reproducible
check/reproducible: ## two builds in different folders, with nothing compiled before, have the same bytes (CACHED=1: quicker, finds less)
	VERSION='$(VERSION)' CACHED='$(CACHED)' $(SUPPLY)/reproducible

.PHONY: vuln
vuln: $(GOVULNCHECK) ## known vulnerabilities in what the code calls; fails with UNCHECKED without the database (UNCHECKED=ok: says so and goes on)
	$(SUPPLY)/vuln $(GOVULNCHECK) || { code=$$?; [[ $$code == 75 && '$(UNCHECKED)' == ok ]] || exit $$code; }

##@ Keep in order

$(KINESIN_TOOLS_DIR)/golangci-lint@%/golangci-lint:
	GOBIN=$(@D) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$*

$(KINESIN_TOOLS_DIR)/gotestsum@%/gotestsum:
	GOBIN=$(@D) go install gotest.tools/gotestsum@$*

$(KINESIN_TOOLS_DIR)/govulncheck@%/govulncheck:
	GOBIN=$(@D) go install golang.org/x/vuln/cmd/govulncheck@$*

.PHONY: lint
lint: $(GOLANGCI_LINT) ## all lint rules of .golangci.yml, formatting included; the client commands compile for Windows
	$(GOLANGCI_LINT) run ./...
	for dir in $(MODULES) $(SUPPLY) tools/dist tools/gen test/web; do (cd $$dir && $(GOLANGCI_LINT) run ./...); done
	GOOS=windows go vet ./cmd/... ./sdk/...

.PHONY: lint/fix
lint/fix: $(GOLANGCI_LINT) ## mend what the lint rules can mend by themselves
	$(GOLANGCI_LINT) run --fix ./...

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## format the code
	$(GOLANGCI_LINT) fmt ./...

.PHONY: generate
generate: ## generate code
	cd tools/gen && GOWORK=off go run .
	go generate ./...

.PHONY: dashboards
dashboards: ## deploy/grafana, from tools/dashboards
	cd tools/dashboards && go run .

.PHONY: test/rules
test/rules: ## alerts, their runbooks and dashboards; with promtool, of Debian's package prometheus or KINESIN_PROMTOOL
	@tools/rules/install >/dev/null
	go test -count=1 ./test/rules
	go test -count=1 ./cmd/kinesin/cli -run TestRunbookCommands
	cd tools/dashboards && go run . -check

.PHONY: docs/metrics
docs/metrics: ## the list of series in docs/reference/metrics.md
	go test ./server -run TestMetricsPage -update

.PHONY: docs/cli
docs/cli: ## docs/reference/cli.md and configuration.md, from the help of the commands
	go test ./cmd/kinesin/cli -run 'TestCommandsPage|TestConfigurationPage' -update

.PHONY: docs/http
docs/http: ## the list of calls in docs/reference/http.md, from the routes
	go test ./internal/rest -run TestCallsPage -update

.PHONY: docs/errors
docs/errors: ## the table of docs/reference/errors.md, from the refusals in the code
	go test ./sdk -run TestErrorsPage -update

.PHONY: web/vendor
web/vendor: ## the scripts of others that the console embeds, and axe-core for its test, from npm
	tools/web/vendor

.PHONY: check/clean
check/clean: ## fail when generated code or go.mod are not up to date
	go mod tidy -diff && cd test/web && go mod tidy -diff
	state() { git status --porcelain --untracked-files=all; git diff HEAD; }; \
	before=$$(state); $(MAKE) generate; \
	if [ "$$before" != "$$(state)" ]; then git status --short; echo 'generated code is not up to date: commit what `make generate` changed' >&2; exit 1; fi

.PHONY: ci
ci: ## exactly what CI runs, in the same order
	$(MAKE) test
	$(MAKE) lint
	$(MAKE) test/aws/faults LONG=
	$(MAKE) test/openapi LONG=
	$(MAKE) test/clients
	$(MAKE) test/conformance
	$(MAKE) -j 2 test/cron test/protocol LONG=
	@if command -v "$$(go env CC)" >/dev/null; then $(MAKE) test/race; else echo 'test/race left out: it needs a C compiler, and there is none' >&2; fi
	$(MAKE) test/crash KILLS=5
	$(MAKE) test/web
	$(MAKE) test/rules
	$(MAKE) test/chart
	$(MAKE) test/dist
	$(MAKE) -j 2 test/kube test/sim SEEDS=1000 # which stands aside: its time is virtual
	$(MAKE) tf/check
	$(MAKE) bench/smoke
	$(MAKE) check/clean
	$(MAKE) check/supply
	$(MAKE) check/reproducible CACHED=1
	$(MAKE) vuln UNCHECKED=ok

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z\/]+:.*## / { printf "  %-20s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)
