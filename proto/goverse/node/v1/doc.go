// Package nodepb holds the messages and the gRPC service by which a Goverse node identifies itself and is
// watched. Every file but this one is generated from node.proto; regenerate with
//
//	go generate ./proto/...
//
// which needs protoc, protoc-gen-go v1.36 and protoc-gen-go-grpc v1.6 in the PATH.
//
// Not promised: anything about leadership or membership. An answer proves that the node's process lives, not
// that it is still registered in etcd.
//
// Experimental: the API of this package may change in any minor release.
package nodepb

//go:generate -command messages protoc --proto_path=../../.. --go_out=../../.. --go_opt=paths=source_relative
//go:generate -command services protoc --proto_path=../../.. --go-grpc_out=../../.. --go-grpc_opt=paths=source_relative
//go:generate messages goverse/node/v1/node.proto
//go:generate services goverse/node/v1/node.proto
