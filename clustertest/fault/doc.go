// Package fault breaks networks, processes and etcd, for tests of programs that have to survive such faults. It
// has a TCP relay that refuses, drops, delays, throttles and resets connections; child processes that are
// killed and frozen with real signals; out-of-band changes of keys and leases in etcd; and load under which
// etcd's history is compacted.
//
//	relay, err := fault.NewRelay(etcdEndpoint)    // connect to relay.Address() instead
//	relay.Blackhole(fault.FromTarget)             // etcd's answers are held back
//	err = relay.Heal()                            // they arrive, on the same connection
//
//	process, err := fault.StartProcess(exec.Command("goversed", "node"))
//	at, err := process.Freeze()                   // all its threads stand still
//
// The faults and their places:
//
//	a connection refused, silent, late, slow or reset      Relay, in front of etcd or a node
//	a process killed, frozen, thawed, sent a signal        Process
//	a lease revoked, a key deleted out of band             RevokeLease, DeleteKey
//	compaction under load                                  StartChurn
//	a member of etcd killed and restarted                  embedetcd.Cluster: StopMember, RestartMember
//	within one process, a node cut off, its watch frozen,  clustertest.Faults
//	  its renewals stopped, its requests held or failed
//	within one process, a node killed                      clustertest.Node: Kill
//
// The package has a relay of its own because the existing ones do not fit. toxiproxy closes a blackholed
// connection when the blackhole is lifted, resets a connection only when the next byte comes, and does not wait
// for its goroutines. etcd's own proxy drops bytes out of the middle of a stream, cannot refuse or reset,
// listens on every interface, and cannot be closed while a connection is idle. Here a blackhole holds data
// back, and the data arrives when the blackhole is lifted, as in a network.
//
// # What is not promised
//
// A relay is a program, not a network. The kernel accepts a connection, and acknowledges data, before the relay
// decides. A client of a blackhole is therefore connected although nothing answers, and the kernel acknowledges
// up to about a megabyte for each connection and direction. Data that the kernel had before a fault began still
// arrives. A client learns only after it was accepted that the target refuses or is dead: its connection is
// reset. Call Refuse as well where the port of a dead node must refuse.
//
// While a relay refuses, its port is reserved on Unix systems other than Solaris and its relatives. The
// reservation excludes all programs except those of the same user that ask to share the port (SO_REUSEPORT).
// Elsewhere another program can take the port, and Heal then returns an error.
//
// Process exists only on Unix. Signals reach the process itself, not its children. On systems other than Linux
// a process outlives a parent that is killed.
//
// Experimental: the API of this package may change in any minor release.
package fault
