// Package bankpb holds the gRPC services of the bank example, generated from bank.proto. All files but this one
// are generated; regenerate them with
//
//	go generate ./examples/bank/...
//
// which needs protoc, protoc-gen-go v1.36 and protoc-gen-go-grpc v1.6 in the PATH.
package bankpb

//go:generate -command messages protoc --go_out=. --go_opt=paths=source_relative
//go:generate -command services protoc --go-grpc_out=. --go-grpc_opt=paths=source_relative
//go:generate messages bank.proto
//go:generate services bank.proto
