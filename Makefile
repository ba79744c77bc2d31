# What a maintainer types; `make ci` is what a change must pass.
.PHONY: help build test race lint fuzz chaos bench generate ci

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

ci: ## what a change must pass
	bash .ci/run
