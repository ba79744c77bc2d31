// Package doctor looks at etcd and at a cluster as a node would, for goversed doctor: Examine gathers what there is
// to see, package diagnosis below it judges that, and Print writes it down.
//
// It changes nothing that stays. It creates leases and revokes them, and writes one key of its own on one of them,
// below <prefix>/nodes-doctor/, of which nodes hear and make nothing. Whether the user may write elsewhere is
// learned from transactions whose writes stand where they are never carried out: etcd checks the rights of every
// operation of a transaction first.
//
// Every question has a time-out, and all together that of the configuration. How much is looked at is bounded:
// nodes, leases, and the keys in which other clusters are looked for.
//
// Not promised: that what is seen from here is what the nodes see. Run it where a node runs, as its user.
package doctor
