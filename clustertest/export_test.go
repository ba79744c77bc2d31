package clustertest

// Label makes what f begins count as a node's own.
func (c *Cluster) Label(f func()) { c.label(f) }
