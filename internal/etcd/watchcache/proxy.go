package watchcache

import "crypto/rand"

// watchStart returns the beginning of the range to watch. Behind a proxy it lies between the range's own start and
// the first key, where no keys are. So the watched range differs from that of every other watch without having
// other keys in it.
func (m *Mirror) watchStart() string {
	if m.proxyState.NeedsOwnRange() {
		return m.cfg.Keys.RangeStart() + "!" + rand.Text()
	}
	return m.cfg.Keys.RangeStart()
}

// Proxied reports whether a watch has shown that etcd is reached through a proxy.
func (m *Mirror) Proxied() bool { return m.proxied.Load() }

// reportProxy logs, once, the consequences of a proxy before etcd.
func (m *Mirror) reportProxy() {
	if m.proxied.Swap(true) {
		return
	}
	m.log.Warn("etcd is reached through a proxy whose watches do not report progress, as etcd grpc-proxy: while others "+
		"write, "+
		"a small read compares the view of the cluster with etcd instead, and a watch that the proxy lost is noticed later; "+
		"to avoid that, name etcd's members as endpoints", "interval", m.cfg.LagTimeout.String())
}
