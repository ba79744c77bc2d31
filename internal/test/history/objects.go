package history

import "github.com/goverse/goverse/cluster/objects"

// Objects are the activations of one node: each is asked every millisecond whether it is valid, from when its
// factory ran until it is over or says that it is not. All methods are safe for concurrent use.
type Objects struct{ active *sampledClaims }

// Objects records the activations of a node, until Stop. Session names the session by which the node has its shards, as
// [Node.Session] does.
func (r *Recorder) Objects(node string, session func() int64) *Objects {
	return &Objects{r.sample(node, session)}
}

// Activated is to be called by the factory of an object, or by its method Activated.
func (o *Objects) Activated(object *objects.Object) *Activation {
	return &Activation{o.active.begin(Object(object.Service(), object.Key()), false, Now(), func() (int64, bool) {
		return object.Epoch(), object.Valid()
	})}
}

// Activation is one activation of an object; each counts as a life of its own.
type Activation struct{ claim *claim }

// Deactivated is to be called at the end of the method Deactivated: the activation is asked a last time.
func (a *Activation) Deactivated() {
	if a.claim.giveUp() {
		now := Now()
		a.claim.ended(Window{now, now})
	}
}
