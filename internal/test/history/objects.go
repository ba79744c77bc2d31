package history

import "github.com/goverse/goverse/cluster/objects"

// Objects records the activations of one node. Each is asked every millisecond whether it is valid, from the
// call of Activated until it is over or answers no. All methods are safe for concurrent use.
type Objects struct{ active *sampledClaims }

// Objects returns a recorder of a node's activations, which records until Stop. session returns the id of the
// session on which the node has its shards, as [Node.Session] does.
func (r *Recorder) Objects(node string, session func() int64) *Objects {
	return &Objects{r.newSampledClaims(node, session)}
}

// Activated records the start of an activation. Call it in the factory of an object, or in its method
// Activated.
func (o *Objects) Activated(object *objects.Object) *Activation {
	return &Activation{o.active.startClaim(Object(object.Service(), object.Key()), false, Now(), func() (int64, bool) {
		return object.Epoch(), object.Valid()
	})}
}

// Activation is one activation of an object. Each counts as a life of its own.
type Activation struct{ claim *sampledClaim }

// Deactivated records the end of the activation, after asking it a last time. Call it at the end of the
// object's method Deactivated.
func (a *Activation) Deactivated() {
	if a.claim.endClaim() {
		now := Now()
		a.claim.recordEnd(Window{now, now})
	}
}
