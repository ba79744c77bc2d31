# What a maintainer types; `make ci` is what a change must pass.
.PHONY: help build test race lint fuzz chaos bench generate cross api licences vuln release ci

# What is supported beside the system that this runs on; docs/policy/compatibility.md has the matrix.
SYSTEMS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
# The database of vulnerabilities; without a network, a folder with data/osv of golang/vulndb, as file:///…
VULNDB = https://vuln.go.dev
PRODUCT = ./cluster/... ./node/... ./embedetcd/... ./clustertest/... ./cmd/... ./internal/...

help: ## show this
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile

build: ## bin/goversed
	go build -o bin/ ./cmd/goversed

test: ## all tests
	go test ./...

race: ## the tests under the race detector
	go test -race ./cluster/... ./clustertest/... ./node ./embedetcd ./internal/... ./cmd/...

lint: ## gofmt, vet (for other systems, too), staticcheck
	gofmt -l $$(git ls-files '*.go')
	go vet ./...
	GOOS=darwin go vet ./...
	GOOS=windows go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

fuzz: ## what reads keys, maps and reports, about a minute each
	go test -run '^$$' -fuzz FuzzParse -fuzztime 400000x -fuzzminimizetime 0x ./internal/state
	go test -run '^$$' -fuzz FuzzQueueOf -fuzztime 400000x -fuzzminimizetime 0x ./internal/state
	go test -run '^$$' -fuzz 'FuzzDecode$$' -fuzztime 400000x -fuzzminimizetime 0x ./internal/sharding
	go test -run '^$$' -fuzz FuzzDecodeReport -fuzztime 400000x -fuzzminimizetime 0x ./internal/sharding

chaos: ## random faults on whole clusters, the full run: twenty minutes
	go test ./integration -count=1 -v -run 'TestChaos$$' -chaos.for 20m -timeout 60m

bench: ## measure everything and write docs/benchmarks.md, an hour
	cd bench && go run ./cmd/bench

generate: ## the gRPC code
	go generate ./...

cross: ## build and vet for every supported system, and vet for 32 bits
	@set -e; for system in $(SYSTEMS); do echo $$system; \
	  GOOS=$${system%/*} GOARCH=$${system#*/} go build -o /dev/null ./...; \
	  GOOS=$${system%/*} GOARCH=$${system#*/} go vet ./...; \
	done; echo linux/arm; GOARCH=arm go vet $(PRODUCT)

api: ## the record of the exported API, docs/policy/api.txt
	go test -count=1 -run 'TestAPI$$' . -api.update

licences: ## the licences of what goversed links, docs/policy/licences.md
	go run -C internal/test/tools ./licences

vuln: ## known vulnerabilities in what is linked
	go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 -db $(VULNDB) ./...

release: ## dist/: archives for five systems, checksums, bills of materials
	go run -C internal/test/tools ./release

ci: ## what a change must pass
	bash .ci/run
