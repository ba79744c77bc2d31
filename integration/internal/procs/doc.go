// Package procs is the kit of the integration tests. It runs goversed and etcd as real processes that tests can
// stop, kill, freeze and restart, and reads their status over HTTP.
//
//	procs.Main(m, &kit)                     in TestMain
//	etcd := kit.StartEtcd(t, procs.Etcd37)  etcd.Kill(t); etcd.Restart(t)
//	n := kit.StartNode(t, procs.NodeConfig{Etcd: etcd.Endpoint})   builds goversed, once
//	watch := procs.Watch(t, n)              P1 and growing tokens, checked at the end
//
// Every process ends with its test. If the test fails, the output of its processes is logged. Tests wait for
// observations, through Await.
//
// Not promised: the package does not support Windows, which has no SIGSTOP; there it is empty. On systems other
// than Linux, a test binary that is killed leaves its processes behind.
package procs
