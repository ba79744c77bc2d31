package txn

import (
	"github.com/goverse/goverse/internal/state"
)

// queueEmpty holds while no candidate's key exists.
func queueEmpty(keys state.Keys) Guard { return Guard{Key: keys.Queue(), End: keys.QueueEnd()} }

// CreateActing makes the member at address the acting leader, if there is neither a candidate nor an acting
// leader.
func CreateActing(keys state.Keys, lease int64, address string) Txn {
	return Txn{If: []Guard{queueEmpty(keys), absent(keys.Acting())},
		Then: []Op{{Kind: Put, Key: keys.Acting(), Value: address, Lease: lease}}}
}

// DeleteActing deletes the acting key that was created at revision.
func DeleteActing(keys state.Keys, revision int64) Txn {
	return Txn{If: []Guard{created(keys.Acting(), revision)}, Then: []Op{{Kind: Delete, Key: keys.Acting()}}}
}

// RewriteCandidate repairs the candidate's key that was altered out of band at modRevision.
func RewriteCandidate(keys state.Keys, lease int64, address string, modRevision int64) Txn {
	key := keys.Candidate(lease)
	return Txn{If: []Guard{unmodified(key, modRevision)}, Then: []Op{{Kind: Put, Key: key, Value: address, Lease: lease}}}
}

// TermGuards returns guards that hold if and only if the key of a term stands: the candidate's key on the given
// lease, or, of an acting leader, the acting key while there is no candidate.
func TermGuards(keys state.Keys, acting bool, lease, token int64) []Guard {
	if acting {
		return []Guard{created(keys.Acting(), token), queueEmpty(keys)}
	}
	return []Guard{created(keys.Candidate(lease), token)}
}

// WriteRequest writes a request on the requester's lease, while the leader that it is about leads. leader is that
// candidate's key.
func WriteRequest(keys state.Keys, lease int64, leader string, request state.RequestRecord) Txn {
	return Txn{If: []Guard{created(leader, request.Token)},
		Then: []Op{{Kind: Put, Key: keys.Request(), Value: request.Encode(), Lease: lease}}}
}
