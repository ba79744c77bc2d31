// Package redisserver starts Redis servers from the installed package, for tests.
//
//	server := redisserver.StartForTest(t)            skips where redis-server is not installed
//	client := redis.NewClient(&redis.Options{Addr: server.Address()})
//
// Each server has its own directory and listens on a port of 127.0.0.1. It keeps nothing on disk unless its arguments
// state otherwise.
//
// The package exists only on Unix, as do the tests that use it; elsewhere it is empty.
//
// Not promised: on systems other than Linux, a server does not end with a parent that is killed.
package redisserver
