// Package probepb is a gRPC service for tests of objects. Except for doc.go and impl.go it is generated from
// probe.proto; regenerate it with go generate, which needs protoc, protoc-gen-go v1.36 and protoc-gen-go-grpc
// v1.6 in the PATH.
//
// Not promised: anything. It is only for tests.
package probepb

//go:generate -command messages protoc --go_out=. --go_opt=paths=source_relative
//go:generate -command services protoc --go-grpc_out=. --go-grpc_opt=paths=source_relative
//go:generate messages probe.proto
//go:generate services probe.proto
