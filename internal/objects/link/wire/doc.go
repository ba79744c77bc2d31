// Package wire encodes and decodes the messages of links. It produces the same bytes as the generated code for
// goverse.objects.v1, and is tested against it. A message carries many small calls, and the generated code
// spends most of its time on allocations for them that are soon discarded. This package reuses calls and
// replies, with the space of their bytes, once they are given back.
//
// [Request] and [Response] are protocol buffer messages, so gRPC streams can carry them with gRPC's own codec,
// and interceptors can read them.
//
// # What is not promised
//
// That unknown fields are kept: they are skipped.
package wire
