// Package fault breaks networks and processes, for tests of programs that have to live
// with that: a TCP relay that refuses, drops, delays, throttles and resets, and child
// processes that are killed and frozen with real signals.
//
//	relay, err := fault.NewRelay(etcdEndpoint)      // connect to relay.Address() instead
//	relay.Blackhole(fault.FromTarget)               // etcd's answers are lost
//	err = relay.Heal()
//
//	process, err := fault.StartProcess(exec.Command("goversed", "node"))
//	at, err := process.Kill()                       // SIGKILL, and its end
package fault
