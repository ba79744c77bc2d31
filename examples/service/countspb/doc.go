// Package countspb holds the gRPC service of the service example, generated from counts.proto.
package countspb

//go:generate -command messages protoc --proto_path=. --go_out=. --go_opt=paths=source_relative
//go:generate -command services protoc --proto_path=. --go-grpc_out=. --go-grpc_opt=paths=source_relative
//go:generate messages counts.proto
//go:generate services counts.proto
