package txn

import (
	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/state"
)

// queueEmpty holds while no candidate's key exists.
func queueEmpty(keys state.Keys) Guard { return Guard{Key: keys.Queue(), End: keys.QueueEnd()} }

// CreateActing makes the member at address the acting leader, if nobody queues and
// nobody acts.
func CreateActing(keys state.Keys, lease int64, address string) Txn {
	return Txn{If: []Guard{queueEmpty(keys), absent(keys.Acting())},
		Then: []Op{{Kind: Put, Key: keys.Acting(), Value: address, Lease: lease}}}
}

// DeleteActing gives the acting key up that was created at revision.
func DeleteActing(keys state.Keys, revision int64) Txn {
	return Txn{If: []Guard{created(keys.Acting(), revision)}, Then: []Op{{Kind: Delete, Key: keys.Acting()}}}
}

// Rewrite puts the candidate's key right that somebody altered at modRevision.
func Rewrite(keys state.Keys, lease int64, address string, modRevision int64) Txn {
	key := keys.Candidate(lease)
	return Txn{If: []Guard{unmodified(key, modRevision)}, Then: []Op{{Kind: Put, Key: key, Value: address, Lease: lease}}}
}

// TermGuards hold exactly while the key stands by which a term leads: the candidate's
// on the given lease, or in fallback the acting key while nobody queues.
func TermGuards(keys state.Keys, mode election.Mode, lease, token int64) []Guard {
	if mode == election.ModeFallback {
		return []Guard{created(keys.Acting(), token), queueEmpty(keys)}
	}
	return []Guard{created(keys.Candidate(lease), token)}
}

// Ask puts down a request on the asker's lease, while the leader it is about leads:
// the candidate whose key is leader.
func Ask(keys state.Keys, lease int64, leader string, request state.RequestRecord) Txn {
	return Txn{If: []Guard{created(leader, request.Token)},
		Then: []Op{{Kind: Put, Key: keys.Request(), Value: request.Encode(), Lease: lease}}}
}
