package peer

import (
	"crypto/ed25519"
	"crypto/rand"
)

// A Roster reports whether the process with that instance id is a member of this node's cluster that may watch
// this node. It returns the public key in the process's member record, or nil if the record has none, so that
// the process can prove nothing. It must not block.
type Roster func(instanceID string) (key []byte, member bool)

// SetRoster makes this node ignore the loss of watchers that do not prove membership in its cluster. Members
// prove it by signing a random challenge with the private key that matches the public key in their member
// record. Other watchers still learn whether this process lives. Without a roster the loss of any watcher
// counts. Call SetRoster before Start.
func (n *Node) SetRoster(r Roster) { n.roster.Store(&r) }

// WatchKey returns the public key by which other nodes recognize the watches of this node.
func (n *Node) WatchKey() []byte { return n.key.Public().(ed25519.PublicKey) }

// proofPrefix is the beginning of the text that a watcher signs, so that its signature means nothing elsewhere.
const proofPrefix = "goverse.node.v1.Watch\x00"

// challengeSize is the size of a challenge in bytes.
const challengeSize = 32

func newChallenge() []byte {
	c := make([]byte, challengeSize)
	_, _ = rand.Read(c) // never fails: crypto/rand ends the program instead
	return c
}

// watchedName returns the part of a proof that names the watched node: its instance id as it answered, and the
// address at which it was dialed. A process at another address that passes on a challenge therefore gets no
// valid proof.
func watchedName(instanceID, address string) string { return instanceID + "\x00" + address }

// signProof returns the proof, for the watched node, that the watch with that challenge belongs to the holder of the
// key.
func signProof(key ed25519.PrivateKey, challenge []byte, watched string) []byte {
	return ed25519.Sign(key, signedText(challenge, watched))
}

// proofValid reports whether the proof is from the holder of the key.
func proofValid(key, challenge []byte, watched string, proof []byte) bool {
	return len(key) == ed25519.PublicKeySize && len(challenge) == challengeSize &&
		ed25519.Verify(key, signedText(challenge, watched), proof)
}

func signedText(challenge []byte, watched string) []byte {
	return append(append([]byte(proofPrefix), challenge...), watched...)
}
