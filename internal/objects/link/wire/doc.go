// Package wire encodes and decodes the messages of links. The bytes are those of the generated code for
// goverse.objects.v1, which it is tested against; it is here because a message carries many small calls, and most of
// the time that the generated code takes for them is the allocation of what is thrown away a moment later. Calls and
// replies are used again here, with the space for their bytes, once they are given back.
//
// [Request] and [Response] are messages of protocol buffers, so that a stream of gRPC carries them with its own codec,
// and interceptors see them.
//
// # What is not promised
//
// That unknown fields are kept: they are skipped.
package wire
