package host

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/logs/logtext"
)

// activateObject creates the implementation of an object for the calls that wait. The caller holds the shard's lock.
func (h *Host) activateObject(o *object) {
	chain := o.first.chain
	epoch, ok := h.enterShard(o.home, chain)
	for w := o.first.next; !ok && w != nil && o.queuedChains > 0; w = w.next {
		if o.home.hasTurnOf(w.chain) {
			chain = w.chain
			epoch, ok = h.cfg.Shards.Reenter(o.home.number)
		}
	}
	if !ok {
		h.awaitShard(o.home)
		return
	}
	o.phase, o.epoch, o.turn, o.since = phaseActivating, epoch, o.home.newTurn(), time.Now()
	o.home.live++
	o.home.expose(o.turn)
	chain = chainOf(chain, o.turn)
	if !h.spawn(func() { h.runFactory(o, chain) }) {
		o.home.unexpose(o.turn)
		o.phase, o.turn = phaseEmpty, 0
		o.home.live--
		h.cfg.Shards.Exit(o.home.number)
		h.refuseWaiters(o, errMoved)
	}
}

// runFactory runs the factory.
func (h *Host) runFactory(o *object, chain []uint64) {
	defer h.cfg.Shards.Exit(o.home.number)
	room := h.makeRoom()
	overdue := time.AfterFunc(h.cfg.ActivationTimeout, func() { h.refuseOverdue(o) })
	impl, err := any(nil), errFull
	defer func() { // also if the factory has left its goroutine
		overdue.Stop()
		h.finishActivation(o, impl, err)
	}()
	if room {
		err = errNoReturn
		impl, err = h.constructObject(o, chain)
	}
}

// errNoReturn is returned for a factory that left its goroutine by runtime.Goexit.
var errNoReturn = errors.New("the factory did not return")

// finishActivation ends an activation. It grants turns to the waiting calls, or refuses them if the activation failed.
func (h *Host) finishActivation(o *object, impl any, err error) {
	o.home.mu.Lock()
	defer o.home.mu.Unlock()
	o.home.unexpose(o.turn)
	o.turn = 0
	if err == nil && !o.hung {
		o.impl, o.phase = impl, phaseActive
		o.service.metrics.active.Add(1)
		h.addRecent(o)
		h.advanceObject(o)
		return
	}
	h.activations.Add(-1)
	o.home.live--
	if err == nil {
		err = errHung(o)
	}
	o.phase = phaseEmpty
	o.endExtras()
	h.warnActivation(o, err)
	h.refuseWaiters(o, activationError(o, h.errorForCaller(o.service.name, o.key, err)))
}

// warnEvery is the least time between log lines about failed activations of one service.
const warnEvery = time.Second

// warnActivation logs a failed activation, with the number of failures since the last such line.
func (h *Host) warnActivation(o *object, err error) {
	f := &o.service.metrics
	f.unwarnedFailures.Add(1)
	now, last := time.Now().UnixNano(), f.lastWarning.Load()
	if now-last < int64(warnEvery) || !f.lastWarning.CompareAndSwap(last, now) {
		return
	}
	h.cfg.Logger.Warn("could not activate an object; the next call of it tries again", "service", o.service.name,
		"key", loggedKey(o.key), "error", logtext.OneLine(err), "failures", f.unwarnedFailures.Swap(0))
}

// constructObject calls the factory and Activated.
func (h *Host) constructObject(o *object, chain []uint64) (impl any, err error) {
	ctx, cancel := context.WithTimeout(h.cfg.Shards.Drained(o.home.number), h.cfg.ActivationTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			o.service.metrics.panics.Add(1)
			if h.panicLimiter.Allow() {
				h.cfg.Logger.Error("the factory of an object panicked", "service", o.service.name, "key", loggedKey(o.key),
					"panic", p, "stack", string(debug.Stack()))
			}
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
func (h *Host) refuseOverdue(o *object) {
	o.home.mu.Lock()
	defer o.home.mu.Unlock()
	if o.phase != phaseActivating {
		return
	}
	o.hung = true
	h.cfg.Logger.Warn("the factory of an object has not returned in time; its key cannot be called until it does",
		"service", o.service.name, "key", loggedKey(o.key), "after", h.cfg.ActivationTimeout.String())
	h.refuseWaiters(o, errHung(o))
}

var errFull = status.Error(codes.ResourceExhausted,
	"this node has as many activations as MaxActive allows, and all are in use")

func errHung(o *object) error {
	return objects.Error(codes.Unavailable, objects.ReasonActivation, "objects: "+o.displayName()+
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
