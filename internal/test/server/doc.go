// Package server runs the servers of others, such as PostgreSQL and Redis, as processes of its
// own at 127.0.0.1, for tests and benchmarks.
//
// Not promised: that a server ends with a process that is killed, on systems other than Linux.
package server
