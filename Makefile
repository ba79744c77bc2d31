# What a maintainer types. `make ci` is what a change must pass.
.PHONY: build test race lint fuzz bench generate ci

build:
	go build -o bin/ ./cmd/goversed

test:
	go test ./...

race:
	go test -race ./cluster/... ./clustertest/... ./node/... ./embedetcd/...

lint:
	gofmt -l $$(git ls-files '*.go')
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

fuzz:
	go test -run '^$$' -fuzz FuzzParse -fuzztime 1m ./cluster/state

bench:
	cd bench && go run ./cmd/bench

generate:
	go generate ./...

ci:
	bash .ci/run
