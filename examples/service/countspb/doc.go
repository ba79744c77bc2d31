// Package countspb is generated from counts.proto: the gRPC service of the example.
package countspb

//go:generate protoc --proto_path=. --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative counts.proto
