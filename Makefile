# What a maintainer types; `make ci` is what a change must pass.
.PHONY: help build test race lint fuzz bench generate ci

help: ## show this
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile

build: ## bin/goversed
	go build -o bin/ ./cmd/goversed

test: ## all tests
	go test ./...

race: ## the tests under the race detector
	go test -race ./cluster/... ./clustertest/... ./node ./embedetcd ./internal/... ./cmd/...

lint: ## gofmt, vet, staticcheck
	gofmt -l $$(git ls-files '*.go')
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

fuzz: ## the key parser, for a minute
	go test -run '^$$' -fuzz FuzzParse -fuzztime 1m ./cluster/state

bench: ## measure everything and write docs/benchmarks.md, half an hour
	cd bench && go run ./cmd/bench

generate: ## the gRPC code
	go generate ./...

ci: ## what a change must pass
	bash .ci/run
