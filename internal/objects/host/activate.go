package host

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/hosted"
)

// startActivation begins to create the implementation of an object for the turns that wait. The caller holds the
// shard's lock.
func (o *object) startActivation() {
	s, chain := o.home, o.turns.first.chain
	epoch, ok := s.enterShard(chain)
	for t := o.turns.first.next; !ok && t != nil && o.turns.queuedChains > 0; t = t.next {
		if chain = t.chain; s.ids.hasExposed(chain) {
			epoch, ok = s.host.cfg.Shards.Reenter(s.number)
		}
	}
	if !ok {
		s.awaitServed()
		return
	}
	id := s.ids.nextID()
	o.phase, o.epoch, o.turns.exclusive, o.since = phaseActivating, epoch, id, time.Now()
	s.live++
	s.ids.exposeID(id)
	chain = chainOf(chain, id)
	if !s.host.workers.run(func() { o.runFactory(chain) }) {
		o.endActivating()
		s.exitShard()
		o.refuseWaiting(errMoved)
	}
}

// endActivating makes an object empty that could not be activated. The caller holds the shard's lock.
func (o *object) endActivating() {
	o.home.ids.concealID(o.turns.exclusive)
	o.phase, o.turns.exclusive = phaseEmpty, 0
	o.home.live--
}

// runFactory runs the factory.
func (o *object) runFactory(chain []uint64) {
	h := o.home.host
	defer o.home.exitShard()
	room := h.evictor.makeRoom()
	overdue := time.AfterFunc(h.cfg.ActivationTimeout, func() { h.workers.run(o.refuseOverdue) })
	impl, err := any(nil), errFull
	defer func() { // also if the factory has left its goroutine
		o.finishActivation(impl, err)
		overdue.Stop()
	}()
	if room {
		err = errNoReturn
		impl, err = o.callFactory(chain)
	}
}

// errNoReturn is returned for a factory that left its goroutine by runtime.Goexit.
var errNoReturn = errors.New("the factory did not return")

// finishActivation ends an activation. It begins the waiting turns, or refuses them if the activation failed. err may
// be the factory's own and inspect the object when it is read, so it is read and logged before the shard is locked.
func (o *object) finishActivation(impl any, err error) {
	f := o.home.host.failures
	if err != nil {
		f.warnActivation(o, err)
		err = activationError(o, f.errorForCaller(o.service.name, o.key, err))
	}
	if !o.resolveActivation(impl, err) && err == nil {
		f.warnActivation(o, errHung(o))
	}
}

// resolveActivation begins the waiting turns and returns true. If err is not nil or the factory is overdue, it refuses
// them and returns false.
func (o *object) resolveActivation(impl any, err error) bool {
	s, h := o.home, o.home.host
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && !o.hung {
		s.ids.concealID(o.turns.exclusive)
		o.impl, o.phase, o.turns.exclusive = impl, phaseActive, 0
		h.evictor.addActivation(o)
		o.advanceTurns()
		return true
	}
	h.evictor.activations.Add(-1)
	if err == nil {
		err = errHung(o)
	}
	o.endActivating()
	o.extras.endWork()
	o.refuseWaiting(err)
	return false
}

// callFactory calls the factory and Activated.
func (o *object) callFactory(chain []uint64) (impl any, err error) {
	h := o.home.host
	ctx, cancel := context.WithTimeout(h.cfg.Shards.Drained(o.home.number), h.cfg.ActivationTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			h.failures.reportPanic(o, "the factory of an object panicked", p)
			impl, err = nil, status.Error(codes.Internal, "the factory panicked; see the log of its node")
		}
	}()
	ctx = WithChain(ctx, chain)
	if impl, err = o.service.registered.New(ctx, &o.Object); err != nil {
		return nil, factoryError(err)
	}
	if a, ok := impl.(objects.Activator); ok {
		err = factoryError(a.Activated(ctx))
	}
	return impl, err
}

// factoryError returns the error of a factory. If it is a status, the ErrorInfo that Goverse gave to another call is
// removed.
func factoryError(err error) error {
	if _, _, ok := concealDetails(err); ok {
		return err // it is logged unchanged
	}
	if _, ok := status.FromError(err); ok {
		return asStatus(err)
	}
	return err
}

// refuseOverdue refuses the calls that wait for a factory that has exceeded its time-out. The object still waits for
// the factory.
func (o *object) refuseOverdue() {
	if !o.markHung() {
		return
	}
	h := o.home.host
	h.cfg.Logger.Warn("the factory of an object has not returned in time; its key cannot be called until it does",
		"service", o.service.name, "key", loggedKey(o.key), "after", h.cfg.ActivationTimeout.String())
}

// markHung notes that the factory is overdue, and refuses the calls that wait. It returns false if the activation has
// ended.
func (o *object) markHung() bool {
	o.home.mu.Lock()
	defer o.home.mu.Unlock()
	if o.phase != phaseActivating {
		return false
	}
	o.hung = true
	o.refuseWaiting(errHung(o))
	return true
}

var errFull = status.Error(codes.ResourceExhausted,
	"this node has as many activations as MaxActive allows, and all are in use")

func errHung(o *object) error {
	return hosted.Error(codes.Unavailable, objects.ReasonActivation, "objects: "+o.displayName()+
		": its factory has not returned within the activation time-out")
}

// activationError returns the error for calls of an object that could not be activated. It has the factory's
// own code if err is a status.
func activationError(o *object, err error) error {
	if objects.ReasonOf(err) != "" {
		return err
	}
	code := codes.Unavailable
	var own []protoadapt.MessageV1
	if s, ok := status.FromError(err); ok {
		code = s.Code()
		for _, detail := range s.Details() {
			if m, ok := detail.(protoadapt.MessageV1); ok {
				own = append(own, m)
			}
		}
		err = errors.New(s.Message())
	}
	own = append(own, &errdetails.ErrorInfo{Reason: objects.ReasonActivation, Domain: objects.Domain})
	s := status.New(code, fmt.Sprintf("objects: %s could not be activated: %v", o.displayName(), err))
	if detailed, derr := s.WithDetails(own...); derr == nil {
		s = detailed
	}
	return s.Err()
}

// maxShownKey limits the bytes of a key that messages show.
const maxShownKey = 80

// quotedKey returns a key for error texts.
func quotedKey(key string) string {
	if len(key) > maxShownKey {
		return strconv.Quote(key[:maxShownKey]) + "..."
	}
	return strconv.Quote(key)
}

// loggedKey returns a key for the log, which quotes keys itself where necessary.
func loggedKey(key string) string {
	if len(key) > maxShownKey {
		return key[:maxShownKey] + "..."
	}
	return key
}
