// Package integration tests Goverse as its users run it: goversed processes on an etcd server in a process of
// its own. The tests stop, kill, freeze and isolate them, and observe them only through HTTP, the log and
// etcd's own tools.
//
//	go test ./integration                              with an outage of eight seconds
//	go test ./integration -integration.outage=30s      with a longer one
//	GOVERSE_REQUIRE=etcd34 go test ./integration       fails without Debian's etcd-server
//
// The scenarios run against etcd 3.7, embedded in a copy of the test binary, and against Debian's etcd-server
// package (3.4) where it is installed. The status of all nodes is sampled throughout. A test fails if the
// samples prove two leaders at the same time or a token that does not grow.
//
// Most scenarios wait most of the time, so they run in parallel, each with servers or a database of its own.
// Those that measure short times, or keep the machine busy, run alone.
//
// Not promised: samples do not show everything. The tests of package cluster, and of the packages below it,
// check the rest.
package integration
