// Package stockpb holds the gRPC service of the tutorial, generated from stock.proto. All files but this one are
// generated; regenerate them with
//
//	go generate ./examples/tutorial/...
//
// which needs protoc, protoc-gen-go v1.36 and protoc-gen-go-grpc v1.6 in the PATH.
package stockpb

//go:generate -command messages protoc --go_out=. --go_opt=paths=source_relative
//go:generate -command services protoc --go-grpc_out=. --go-grpc_opt=paths=source_relative
//go:generate messages stock.proto
//go:generate services stock.proto
