package simulation

// logf records an event of the process in the transcript.
func (p *process) logf(format string, args ...any) {
	if !p.w.Log.On() {
		return
	}
	name := p.id
	if p.dead.Load() {
		name += " (dead)"
	}
	p.w.Log.Addf(name, format, args...)
}

// logKeys records the content of etcd.
func (w *world) logKeys() {
	for _, kv := range w.Etcd.Keys("") {
		w.Log.Addf("", "etcd has %s = %s on lease %x, created at %d, written at %d", kv.Key, kv.Value, kv.Lease,
			kv.CreateRevision, kv.ModRevision)
	}
}
