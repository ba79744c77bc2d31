package watchcache

import "crypto/rand"

// start is where the range begins that is watched. No key is between that and the range's own
// start, so the range differs from others' without having other keys in it.
func (m *Mirror) start() string {
	if m.way.Alone() {
		return m.cfg.Keys.RangeStart() + "!" + rand.Text()
	}
	return m.cfg.Keys.RangeStart()
}

// Proxied reports whether a watch has shown that etcd is reached through a proxy.
func (m *Mirror) Proxied() bool { return m.proxied.Load() }

// behindProxy says, once, what it means that etcd is behind a proxy.
func (m *Mirror) behindProxy() {
	if m.proxied.Swap(true) {
		return
	}
	m.log.Warn("etcd is reached through a proxy whose watches do not report progress, as etcd grpc-proxy: while others "+
		"write, "+
		"a small read compares the view of the cluster with etcd instead, and a watch that the proxy lost is noticed later; "+
		"to avoid that, name etcd's members as endpoints", "interval", m.cfg.LagTimeout.String())
}
