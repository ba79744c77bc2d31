// Package objectspb holds the messages and the gRPC service that carry calls to objects between nodes, and from
// programs that are not nodes. Every file but this one is generated from objects.proto; regenerate with
//
//	go generate ./proto/...
//
// which needs protoc, protoc-gen-go v1.36 and protoc-gen-go-grpc v1.6 in the PATH.
//
// Not promised: before v1, programs of different minor versions of Goverse may not understand each other.
//
// Experimental: the API of this package may change in any minor release.
package objectspb

//go:generate -command messages protoc --proto_path=../../.. --go_out=../../.. --go_opt=paths=source_relative
//go:generate -command services protoc --proto_path=../../.. --go-grpc_out=../../.. --go-grpc_opt=paths=source_relative
//go:generate messages goverse/objects/v1/objects.proto
//go:generate services goverse/objects/v1/objects.proto
