// Package server runs servers such as PostgreSQL and Redis as child processes at 127.0.0.1, for tests and
// benchmarks.
//
// Not promised: on systems other than Linux, a server does not end with a parent that is killed.
package server
