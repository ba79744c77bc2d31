// Package etcdfault puts faults between an etcd client and the node that uses it: requests that hang or fail, lost
// answers, watches that fall silent. Package clustertest does so for each node of its clusters.
//
//	faults := etcdfault.Inject(client) // before client becomes Config.Client
//	faults.LoseAnswer(etcdfault.OpTxn, etcdfault.Putting("/goverse/"))
//	faults.CutOff()
//
// Not promised: faults in the kernel or on the wire. Data that etcd sent before a fault may still arrive.
//
// Experimental: the API of this package may change in any minor release.
package etcdfault
