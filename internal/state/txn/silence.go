package txn

import "github.com/goverse/goverse/internal/state"

// WriteSilence writes a watcher's mark, on its lease, that m does not answer it, while m is that incarnation.
func WriteSilence(keys state.Keys, m *state.Member, watcher string, lease int64, record state.SilenceRecord) Txn {
	return Txn{If: []Guard{created(keys.Node(m.Address), m.Incarnation)},
		Then: []Op{{Kind: Put, Key: keys.Silence(m.Address, watcher), Value: record.Encode(), Lease: lease}}}
}

// DeleteSilence deletes a watcher's own mark about a member's silence, if it has not changed.
func DeleteSilence(keys state.Keys, x *state.Silence) Txn {
	key := keys.Silence(x.Address, x.Watcher)
	return Txn{If: []Guard{unmodified(key, x.ModRevision)}, Then: []Op{{Kind: Delete, Key: key}}}
}
