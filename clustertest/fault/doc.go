// Package fault breaks networks, processes and etcd, for tests of programs that have to
// live with that: a TCP relay that refuses, drops, delays, throttles and resets; child
// processes that are killed and frozen with real signals; out-of-band changes of etcd's
// keys and leases; history compacted away under load.
//
//	relay, err := fault.NewRelay(etcdEndpoint)    // connect to relay.Address() instead
//	relay.Blackhole(fault.FromTarget)             // etcd's answers are lost
//	err = relay.Heal()                            // they arrive, on the same connection
//
//	process, err := fault.StartProcess(exec.Command("goversed", "node"))
//	at, err := process.Freeze()                   // all its threads stand still
//
// Which fault is found where:
//
//	a connection refused, silent, late, slow or reset      Relay, before etcd or a node
//	a process killed, frozen, thawed, sent a signal        Process
//	a lease revoked, a key deleted out of band            RevokeLease, DeleteKey
//	compaction under load                                  StartChurn
//	a member of etcd killed and restarted                  embedetcd.Cluster: StopMember, RestartMember
//	within one process, a node cut off, its watch frozen,  clustertest.Faults
//	  its renewals stopped, its requests held or failed
//	within one process, a node killed                      clustertest.Node: Kill
//
// The relay is our own. Of the libraries for it, toxiproxy closes a connection whose
// blackhole is lifted, resets one only when the next byte comes, and does not wait for
// its goroutines; etcd's own proxy drops bytes out of the middle of a stream, cannot
// refuse or reset, listens at every interface, and cannot be closed while a connection
// is idle. Here a blackhole holds back and lifting it goes on, as a network would.
//
// # What is not promised
//
// A relay is a program, not a network. The kernel under it accepts a connection, and
// acknowledges what is sent, before the relay decides: what a network would leave
// unanswered is silent one step later, up to about a megabyte of each connection and
// direction. What had been handed to the kernel before a fault began still arrives. A
// client learns only after it was accepted that the target refuses or is dead: its
// connection is reset. Where a dead node's port must refuse, call Refuse as well.
//
// While a relay refuses, its port is reserved on Unix systems (not on Solaris and its
// kin), against all but a program of the same user that asks to share it
// (SO_REUSEPORT); elsewhere another program can take it, and Heal then says so.
//
// Processes are there on Unix only. Signals reach the process itself, not children of
// its own. On systems other than Linux a process outlives a parent that is killed.
package fault
