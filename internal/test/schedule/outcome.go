package schedule

import (
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/test/modeletcd"
)

// Outcome is the outcome of one request. Its text is also the name of the counted event.
type Outcome string

// The outcomes of requests.
const (
	Arrives    Outcome = ""
	Lost       Outcome = "requests lost"
	Unanswered Outcome = "answers lost"
	Late       Outcome = "requests executed after their sender gave up"
	Refused    Outcome = "requests refused"
	Misreport  Outcome = "requests executed and answered with an error"
	Denied     Outcome = "requests denied"
	Delayed    Outcome = "answers delayed"
)

// Odds holds the probabilities, in a thousand, of the outcomes of a link's requests.
type Odds struct {
	Unanswered, Late, Lost, Refused, Delayed int
	// Broken is the probability, for a request with one of the other outcomes, that its sender soon learns that the
	// connection broke.
	Broken int
}

// Rule determines the outcome of one future request.
type Rule struct {
	Group   uint64 // of the request
	Link    *Link  // nil for any
	Skip    int    // matching requests to spare before it
	Outcome Outcome
	Delay   time.Duration // if the outcome is Late
}

// AddRule adds a rule, unless everything is healed.
func (w *World) AddRule(r Rule) {
	w.rulesMu.Lock()
	defer w.rulesMu.Unlock()
	if !w.healed {
		w.rules = append(w.rules, r)
	}
}

// takeRule removes and returns the rule for a request, if there is one.
func (w *World) takeRule(l *Link, group uint64) (r Rule, found bool) {
	w.rulesMu.Lock()
	defer w.rulesMu.Unlock()
	for i := range w.rules {
		r := &w.rules[i]
		if r.Group != group || r.Link != nil && r.Link != l {
			continue
		}
		if r.Skip > 0 {
			r.Skip--
			continue
		}
		found := *r
		w.rules = append(w.rules[:i], w.rules[i+1:]...)
		return found, true
	}
	return Rule{}, false
}

// refusals holds the errors that etcd may return instead of executing a request.
var refusals = []error{rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCNoSpace, rpctypes.ErrGRPCNoSpace,
	rpctypes.ErrGRPCNoSpace, rpctypes.ErrGRPCTooManyOps, rpctypes.ErrGRPCRequestTooLarge, rpctypes.ErrGRPCNoLeader,
	rpctypes.ErrGRPCTimeout, rpctypes.ErrGRPCRequestTooManyRequests}

// misreports holds the errors that etcd may return although it has executed the request.
var misreports = []error{rpctypes.ErrGRPCNoSpace, status.Error(codes.ResourceExhausted, "the answer is too large")}

// drawOutcome draws the outcome of a request by its odds.
func (w *World) drawOutcome(r *rand.Rand, o Odds, request any, d *modeletcd.Delivery) Outcome {
	switch request.(type) {
	case *pb.TxnRequest, *pb.RangeRequest:
	default:
		o.Refused = 0 // it would concern the session
	}
	breaks, roll, outcome := r.IntN(1000) < o.Broken, r.IntN(1000), Arrives
	for _, x := range []struct {
		odds    int
		outcome Outcome
	}{{o.Unanswered, Unanswered}, {o.Late, Late}, {o.Lost, Lost}, {o.Refused, Refused}, {o.Delayed, Delayed}} {
		if roll < x.odds {
			outcome = x.outcome
			break
		}
		roll -= x.odds
	}
	switch outcome {
	case Unanswered:
		d.Unanswered = true
	case Late:
		d.Out = Between(r, w.RequestTimeout, 8*w.RequestTimeout)
		if breaks {
			d.Out = Between(r, 20*time.Millisecond, w.RequestTimeout) // the sender learns it at once
		}
	case Lost:
		d.Lost = true
	case Delayed:
		d.Back += Between(r, 0, w.RequestTimeout)
		return Delayed
	case Refused:
		if r.IntN(4) == 0 {
			d.Instead = Pick(r, misreports...)
			return Misreport
		}
		d.Refused = Pick(r, refusals...)
		return Refused
	default:
		return Arrives
	}
	if breaks {
		d.Broken = Between(r, time.Millisecond, 10*time.Millisecond)
	}
	return outcome
}
