package node

import (
	"crypto/ed25519"
	"crypto/rand"
)

// A Roster reports whether the process with that instance id is a member of this node's cluster that may watch this
// node, and the public key in its member record: nil if the record has none, so that it can prove nothing. It must not
// block.
type Roster func(instanceID string) (key []byte, member bool)

// SetRoster has this node miss those watchers alone that are members of its cluster and prove it: they sign a random
// challenge with the key whose public half stands in their member record. Anybody else's watch tells its watcher
// whether this process lives, and is worth nothing to this node. Without a roster every watcher is missed. Call it
// before Start.
func (n *Node) SetRoster(r Roster) { n.roster.Store(&r) }

// WatchKey returns the public key by which others recognize the watches of this node.
func (n *Node) WatchKey() []byte { return n.key.Public().(ed25519.PublicKey) }

// proofOf is followed by what a watcher signs, so that its signature means nothing elsewhere.
const proofOf = "goverse.node.v1.Watch\x00"

// challengeSize is that of a challenge in bytes.
const challengeSize = 32

func newChallenge() []byte {
	c := make([]byte, challengeSize)
	_, _ = rand.Read(c) // never fails: crypto/rand ends the program instead
	return c
}

// watched is what a proof names: the node's instance id, as it says itself, and the address at which it was dialed. So
// a challenge that is passed on by whatever answers at another address yields no proof.
func watched(instanceID, address string) string { return instanceID + "\x00" + address }

// sign proves to the node watched that the watch with that challenge is the key's holder's.
func sign(key ed25519.PrivateKey, challenge []byte, watched string) []byte {
	return ed25519.Sign(key, signed(challenge, watched))
}

// proves reports whether proof is the key's holder's.
func proves(key, challenge []byte, watched string, proof []byte) bool {
	return len(key) == ed25519.PublicKeySize && len(challenge) == challengeSize &&
		ed25519.Verify(key, signed(challenge, watched), proof)
}

func signed(challenge []byte, watched string) []byte {
	return append(append([]byte(proofOf), challenge...), watched...)
}
