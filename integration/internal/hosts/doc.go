// Package hosts gives processes hosts of their own: networks that are connected by cables which can be cut in one
// direction or in both.
//
//	if !hosts.Inside() {
//		hosts.Run(t)        // runs the same test in a process with a network of its own
//		return
//	}
//	network := hosts.New(t)                        // servers listen at network.Address
//	host := network.NewHost(t)
//	path, args := host.Command(program, args)      // a process that listens at host.Address
//	host.Cut(hosts.ToHost)
//	host.Heal()
//
// The network belongs to the test's process and ends with it, so that nothing is left behind and no rule concerns
// another program. Linux, root and the programs ip, iptables and nsenter are required.
//
// A cut drops packets behind the host's interface, on their way to the other side: the sender gets no error, as with a
// cable that is pulled at the far end of a switch.
//
// A host that is cut off still answers requests for its link-layer address, so a connection to it fails only by
// time-outs. One without power does not: after some 3 s, the kernel reports that there is no route to it.
//
// Not promised: the process on a host without power still runs.
package hosts
