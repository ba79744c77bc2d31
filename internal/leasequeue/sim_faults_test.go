package leasequeue

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/test/modeletcd"
)

// weather holds the probabilities, in a thousand, of each fault of a host's requests.
type weather struct {
	unanswered int // committed, and the answer lost
	late       int // committed long after its sender gave up and others were committed
	lost       int
	refused    int           // with one error or another
	broken     int           // of the above: the sender learns at once that the connection broke
	slow       time.Duration // largest delay of watches
	denied     string        // the queue with that prefix is denied
}

var calm = weather{slow: 5 * time.Millisecond}

// storm draws a weather with faults.
func (w *world) storm() weather {
	some := func(most int) int { return w.rand.IntN(2) * w.rand.IntN(most) }
	x := weather{unanswered: some(300), late: some(300), lost: some(200), refused: some(200), broken: w.rand.IntN(1000),
		slow: calm.slow}
	if w.rand.IntN(3) == 0 {
		x.slow = between(w.rand, calm.slow, time.Second)
	}
	return x
}

// refusals holds the errors that etcd may return instead of carrying a request out.
var refusals = []error{rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCNoSpace, rpctypes.ErrGRPCNoSpace,
	rpctypes.ErrGRPCNoSpace, rpctypes.ErrGRPCTooManyOps,
	rpctypes.ErrGRPCRequestTooLarge, rpctypes.ErrGRPCNoLeader, rpctypes.ErrGRPCTimeout,
	rpctypes.ErrGRPCRequestTooManyRequests}

// reports holds the errors that etcd may return although it has carried the request out.
var reports = []error{rpctypes.ErrGRPCNoSpace, status.Error(codes.ResourceExhausted, "the answer is too large")}

// delivery returns the delivery of a request of this host. It depends on the request and on how often it was
// made, not on the order of the process's requests.
func (h *host) delivery(request any) modeletcd.Delivery {
	label := label(request)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked[label]++
	rand := newRand(h.w.seed^label, fmt.Sprint(h.name, h.asked[label]))
	f := modeletcd.Delivery{Out: between(rand, time.Millisecond, 4*time.Millisecond), Back: between(rand, time.Millisecond,
		4*time.Millisecond)}
	roll := rand.IntN(1000)
	hit := func(permille int) bool {
		roll -= permille
		return roll < 0 && roll >= -permille
	}
	x := h.weather
	switch r := request.(type) {
	case *pb.WatchResponse:
		f.Back = between(rand, time.Millisecond, max(x.slow, calm.slow))
		return f
	case *pb.TxnRequest:
		if x.denied != "" && touches(r, x.denied) {
			h.w.checks.saw("denied a queue")
			f.Refused = rpctypes.ErrGRPCPermissionDenied
			return f
		}
	case *pb.RangeRequest:
	default:
		x.refused = 0 // it would concern the session, not the entries
	}
	breaks := rand.IntN(1000) < x.broken
	switch {
	case hit(x.unanswered):
		h.w.checks.saw("answers lost")
		f.Unanswered = true
	case hit(x.late):
		h.w.checks.saw("carried out late")
		f.Out = between(rand, simTimeout, 8*simTimeout)
		if breaks {
			f.Out = between(rand, 20*time.Millisecond, simTimeout) // the sender learns it at once
		}
	case hit(x.lost):
		h.w.checks.saw("requests lost")
		f.Lost = true
	case hit(x.refused):
		if rand.IntN(4) == 0 {
			h.w.checks.saw("refused, and carried out")
			f.Instead = reports[rand.IntN(len(reports))]
			return f
		}
		h.w.checks.saw("refused")
		f.Refused = refusals[rand.IntN(len(refusals))]
		return f
	default:
		return f
	}
	if breaks {
		f.Broken = between(rand, time.Millisecond, 10*time.Millisecond)
	}
	return f
}

// label returns a number for the subject of a request, whatever its lane and the order of its keys.
func label(request any) (sum uint64) {
	write := func(keys ...[]byte) {
		for _, key := range keys {
			if !bytes.Contains(key, []byte("/batches/")) {
				about := fnv.New64a()
				_, _ = about.Write(key)
				sum += about.Sum64()
			}
		}
	}
	var txn func(r *pb.TxnRequest)
	txn = func(r *pb.TxnRequest) {
		for _, op := range slices.Concat(r.Success, r.Failure) {
			if inner := op.GetRequestTxn(); inner != nil {
				txn(inner)
			}
			write(op.GetRequestPut().GetKey(), op.GetRequestDeleteRange().GetKey(), op.GetRequestRange().GetKey())
		}
	}
	switch r := request.(type) {
	case *pb.TxnRequest:
		write([]byte("txn"))
		txn(r)
	case *pb.RangeRequest:
		write([]byte("range"), r.Key)
	case *pb.WatchRequest:
		write([]byte("watch"), r.GetCreateRequest().GetKey())
	case *pb.WatchResponse:
		write([]byte("reported"))
		for _, ev := range r.Events {
			write(ev.Kv.Key)
		}
	default:
		write(fmt.Appendf(nil, "%T", r))
	}
	return sum
}

func touches(r *pb.TxnRequest, prefix string) bool {
	return slices.ContainsFunc(slices.Concat(r.Success, r.Failure), func(op *pb.RequestOp) bool {
		if inner := op.GetRequestTxn(); inner != nil {
			return touches(inner, prefix)
		}
		for _, key := range [][]byte{op.GetRequestPut().GetKey(), op.GetRequestDeleteRange().GetKey(),
			op.GetRequestRange().GetKey()} {
			if bytes.HasPrefix(key, []byte(prefix)) {
				return true
			}
		}
		return false
	})
}

func (h *host) set(x weather) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.weather = x
}

// events lists the events that a run must bring about.
var events = []string{"answers lost", "carried out late", "requests lost", "refused", "refused, and carried out",
	"denied a queue", "first", "all at once", "idle times", "requested", "given up before the answer", "tried in vain",
	"shared", "refused to enter", "no space", "no space while requests are late", "cut off", "frozen watch",
	"broken watch", "ended watch", "compaction", "key deleted by hand", "lease revoked by hand",
	"key written by hand", "suspicion", "stopped", "killed", "closed", "leases extended", "places not given up",
	"tried while a place was not given up"}

// goWrong causes faults for the faulty time, and ends them.
func (w *world) goWrong() {
	if w.rand.IntN(4) == 0 {
		w.e.MaxOps = 3 + w.rand.IntN(4) // an entry takes three: the counter, the key, the count
	}
	for _, h := range w.hosts {
		h.set(calm)
		if w.rand.IntN(2) == 0 {
			h.set(w.storm())
		}
	}
	repair := map[string]func(){}
	end := time.Now().Add(faulty)
	pause, what := faulty/4, func() (int, *host) { return w.rand.IntN(kinds), w.hosts[w.rand.IntN(len(w.hosts))] }
	if w.rand.IntN(3) == 0 { // one kind of fault again and again
		again, at := what()
		if w.rand.IntN(3) == 0 {
			again = kinds - 1
		}
		pause, what = faulty/10, func() (int, *host) { return again, at }
	}
	for {
		<-time.After(between(w.rand, 1, 2*pause))
		if time.Now().After(end) {
			break
		}
		kind, at := what()
		w.happen(kind, at, repair)
	}
	for _, m := range repair {
		m()
	}
	w.e.SetNoSpace(false)
	for _, h := range w.hosts {
		h.set(calm)
	}
}

// kinds is the number of kinds of faults. A kind that must meet many others counts more than once.
const kinds = 20

// happen causes one fault at a host. It is repaired after a while or at the end.
func (w *world) happen(kind int, h *host, repair map[string]func()) {
	p := h.present()
	lasting := func(what string, again func()) {
		w.checks.saw(what)
		d := between(w.rand, 10*time.Millisecond, 2*simTTL)
		w.log.say("%s: %s for %v", p.conn.Name, what, d)
		key := p.conn.Name + what
		repair[key] = again
		time.AfterFunc(d, again)
	}
	once := func(what string) {
		w.checks.saw(what)
		w.log.say("%s: %s", p.conn.Name, what)
	}
	switch kind {
	case 0:
		once("storm")
		h.set(w.storm())
	case 1:
		x := w.storm()
		x.denied = w.queue(w.names[w.rand.IntN(len(w.names))])
		if w.rand.IntN(3) == 0 {
			x.denied = w.keys.Prefix()
		}
		w.log.say("%s: denied %s", p.conn.Name, x.denied)
		h.set(x)
	case 2, 3:
		lasting("cut off", func() { p.conn.SetHeld(false) })
		p.conn.SetHeld(true)
	case 4:
		lasting("frozen watch", func() { p.conn.SetFrozen(false) })
		p.conn.SetFrozen(true)
	case 5:
		once("broken watch")
		p.conn.BreakWatches()
	case 6:
		once("ended watch")
		p.conn.AbortWatches()
	case 7:
		once("compaction")
		w.e.Compact()
	case 8, 9:
		lasting("no space", func() { w.e.SetNoSpace(false) })
		w.e.SetNoSpace(true)
	case 10, 11:
		if kv := w.someKey(p); kv != nil {
			once("key deleted by hand")
			w.checks.taint(placeName(string(kv.Key), kv.CreateRevision))
			w.e.Delete(string(kv.Key))
		}
	case 12:
		if s := p.keeper.Current(); s != nil {
			once("lease revoked by hand")
			w.checks.taint(leaseName(int64(s.ID())))
			w.e.Revoke(int64(s.ID()))
		}
	case 13:
		if s := p.keeper.Current(); s != nil {
			once("key written by hand")
			key := w.queue(w.names[w.rand.IntN(len(w.names))]) + "stray"
			put := &pb.PutRequest{Key: []byte(key), Lease: int64(s.ID())}
			_, _ = w.e.Execute(&pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: put}}}})
		}
	case 14:
		if s := p.keeper.Current(); s != nil {
			once("suspicion")
			s.Suspect(between(w.rand, 1, 100*time.Millisecond))
		}
	case 15:
		once("leases extended")
		w.e.ExtendLeases()
	case 16:
		w.replace(h, p, once)
	case 17, 18, 19:
		once("no space while requests are late")
		h.set(weather{late: 400, broken: 1000, slow: calm.slow})
		w.e.SetNoSpace(true)
		time.AfterFunc(between(w.rand, 20*time.Millisecond, simTimeout), func() {
			h.set(calm)
			w.e.SetNoSpace(false)
		})
	}
}

// replace ends a process, in an orderly way or not, and starts another one.
func (w *world) replace(h *host, p *process, once func(string)) {
	switch w.rand.IntN(3) {
	case 0:
		once("killed")
		p.conn.SetHeld(true) // requests in flight still arrive some day
		p.cancel()
		time.AfterFunc(between(w.rand, 1, 3*simTTL), func() { p.conn.SetHeld(false) })
	case 1:
		once("closed")
		ctx, cancel := contextFor(between(w.rand, 1, simTTL))
		p.close(ctx)
		cancel()
		fallthrough
	default:
		once("stopped")
	}
	w.checks.ended(p)
	p.cancel()
	p.wg.Wait()
	h.start()
}

// placeName names a key while it stands.
func placeName(key string, create int64) string { return fmt.Sprint(key, " of ", create) }

// someKey returns a key of a queue on the process's session, or nil if there is none.
func (w *world) someKey(p *process) *mvccpb.KeyValue {
	s := p.keeper.Current()
	if s == nil {
		return nil
	}
	var keys []*mvccpb.KeyValue
	for _, kv := range w.e.Keys(w.keys.Prefix()) {
		if name, ok := w.nameOf(string(kv.Key)); ok && slices.Contains(w.names, name) &&
			strings.Contains(string(kv.Key), "/"+leaseName(int64(s.ID()))+"-") {
			keys = append(keys, kv)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return keys[w.rand.IntN(len(keys))]
}
