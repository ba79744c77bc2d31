// Package integration shows Goverse at work as people run it: goversed processes on
// an etcd server that is a process too, ended, killed, frozen and cut off, watched
// only through HTTP, the log and etcd's own tools.
//
//	go test ./integration                              eight seconds of outage
//	go test ./integration -integration.outage=30s      the longer one
//	GOVERSE_REQUIRE=etcd34 go test ./integration       fails without Debian's etcd-server
//
// The scenarios run against etcd 3.7, embedded in a copy of the test binary, and
// against the etcd-server package of Debian (3.4) where that is installed. Throughout
// each of them the status of all nodes is sampled, and the test fails if the samples
// prove two leaders at one instant or a token that does not grow.
//
// Most of them wait most of the time, so they run side by side, each with servers or a database
// of its own. Those that measure something short, or keep the machine busy, run alone.
//
// Not promised: that samples see everything. What they cannot see is shown closer to
// the code, in the tests of cluster and of the packages below it.
package integration
