// Package procs is the kit of the integration tests: goversed and etcd as real
// processes that can be stopped, killed, frozen and restarted, and what they say
// over HTTP.
//
//	procs.Main(m, &kit)                     in TestMain
//	etcd := kit.StartEtcd(t, procs.Etcd37)  etcd.Kill(t); etcd.Restart(t)
//	n := kit.StartNode(t, procs.NodeConfig{Etcd: etcd.Endpoint})   builds goversed, once
//	watch := procs.Watch(t, n)              P1 and growing tokens, checked at the end
//
// Whatever is started ends with its test, and its output is shown if the test
// failed. Waiting is on observations, through Await.
//
// Not promised: anything about Windows, which has no SIGSTOP; there the package is
// empty. And on systems other than Linux a test binary that is itself killed leaves
// its processes behind.
package procs
