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

	"github.com/goverse/goverse/internal/test/schedule"
)

// calm is the state of a link without faults.
var calm = schedule.LinkState{SlowWatch: 5 * time.Millisecond}

// drawStorm draws a state with faults of requests and watches.
func (w *world) drawStorm() schedule.LinkState {
	some := func(most int) int { return w.Rand.IntN(2) * w.Rand.IntN(most) }
	x := calm
	x.Odds = schedule.Odds{Unanswered: some(300), Late: some(300), Lost: some(200), Refused: some(200),
		Broken: w.Rand.IntN(1000)}
	if w.OneIn(3) {
		x.SlowWatch = w.Between(calm.SlowWatch, time.Second)
	}
	return x
}

// set replaces the faults of the host's requests and watches; others go on.
func (h *host) set(x schedule.LinkState) {
	h.link.Change(func(s *schedule.LinkState) { s.Odds, s.SlowWatch, s.Denied = x.Odds, x.SlowWatch, x.Denied })
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

// requiredEvents returns the events that a run must bring about.
func requiredEvents() []string {
	events := []string{string(schedule.Unanswered), string(schedule.Late), string(schedule.Lost),
		string(schedule.Refused), string(schedule.Misreport), string(schedule.Denied), "first", "all at once",
		"idle times", "requested", "given up before the answer", "tried in vain", "shared", "refused to enter",
		"processes stopped", "processes killed", "processes closed", "former holders that rely on their entry",
		"tries while a former holder relied on its entry", "keys deleted out of band",
		"with a session: " + schedule.LeaseRevoked, "with a session: key written out of band",
		"with a session: session suspected"}
	for _, k := range faultKinds() {
		events = append(events, k.Event())
	}
	return events
}

// causeFaults causes faults for the faulty time, and ends them.
func (w *world) causeFaults() {
	w.Mu.Lock()
	if w.OneIn(4) {
		w.Etcd.MaxOps = 3 + w.Rand.IntN(4) // an entry takes three: the counter, the key, the count
	}
	for _, h := range w.hosts {
		h.set(calm)
		if w.OneIn(2) {
			h.set(w.drawStorm())
		}
	}
	kinds := faultKinds()
	pause, draw := faulty/4, func() (faultKind, *host) {
		return schedule.Draw(w.Rand, kinds), schedule.Pick(w.Rand, w.hosts...)
	}
	if w.OneIn(3) { // one kind of fault again and again
		again, at := draw()
		if w.OneIn(3) {
			again = kinds[len(kinds)-1]
		}
		pause, draw = faulty/10, func() (faultKind, *host) { return again, at }
	}
	for end := w.Now() + faulty; ; {
		d := w.Between(1, 2*pause)
		w.Mu.Unlock()
		<-time.After(d)
		w.Mu.Lock()
		if w.Now() > end {
			break
		}
		kind, h := draw()
		w.Counts.Count(kind.Event())
		w.Log.Addf(h.name, "FAULT %s", kind.Name)
		if wait := kind.Begin(w, h); wait != nil {
			w.Mu.Unlock()
			wait()
			w.Mu.Lock()
		}
	}
	defer w.Mu.Unlock()
	w.HealAll()
	for _, h := range w.hosts {
		h.set(calm)
	}
}

// faultKind is a kind of fault at a host. Begin returns nil, or a function that carries out what takes time.
type faultKind = schedule.Kind[func(w *world, h *host) (wait func())]

// faultKinds returns all kinds. A kind that must meet many others weighs more.
func faultKinds() []faultKind {
	at := func(weight int, name string, begin func(w *world, h *host)) faultKind {
		return schedule.NewKind(weight, name, func(w *world, h *host) func() {
			begin(w, h)
			return nil
		})
	}
	onSession := func(weight int, name string, begin func(w *world, h *host, lease int64)) faultKind {
		return at(weight, name, func(w *world, h *host) {
			if s := h.present().keeper.Current(); s != nil {
				w.Counts.Count("with a session: " + name)
				begin(w, h, int64(s.ID()))
			}
		})
	}
	return []faultKind{
		at(1, "requests lost, late or refused at random", func(w *world, h *host) { h.set(w.drawStorm()) }),
		at(1, "queues denied", func(w *world, h *host) {
			x := w.drawStorm()
			x.Denied = w.queue(schedule.Pick(w.Rand, w.names...))
			if w.OneIn(3) {
				x.Denied = w.keys.Prefix()
			}
			h.set(x)
		}),
		at(2, schedule.CutOff, func(w *world, h *host) { h.link.CutOff(w.drawDuration()) }),
		at(1, schedule.WatchFrozen, func(w *world, h *host) { h.link.FreezeWatch(w.drawDuration()) }),
		at(1, schedule.WatchBroken, func(_ *world, h *host) { h.link.BreakWatch() }),
		at(1, schedule.WatchEnded, func(_ *world, h *host) { h.link.EndWatch() }),
		at(1, schedule.Compaction, func(w *world, _ *host) { w.Compact() }),
		at(2, "no space", func(w *world, _ *host) { w.FillSpace(w.drawDuration()) }),
		onSession(2, schedule.KeyDeleted, func(w *world, _ *host, lease int64) {
			if kv := w.drawKey(lease); kv != nil {
				w.Counts.Count("keys deleted out of band")
				w.checks.taint(placeName(string(kv.Key), kv.CreateRevision))
				w.Etcd.Delete(string(kv.Key))
			}
		}),
		onSession(1, schedule.LeaseRevoked, func(w *world, _ *host, lease int64) {
			w.checks.taint(leaseName(lease))
			w.Etcd.Revoke(lease)
		}),
		onSession(1, "key written out of band", func(w *world, _ *host, lease int64) {
			key := w.queue(schedule.Pick(w.Rand, w.names...)) + "stray"
			put := &pb.PutRequest{Key: []byte(key), Lease: lease}
			_, _ = w.Etcd.Execute(&pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: put}}}})
		}),
		onSession(1, "session suspected", func(w *world, h *host, _ int64) {
			h.present().keeper.Current().Suspect(0, w.Between(1, 100*time.Millisecond))
		}),
		at(1, "leases extended", func(w *world, _ *host) { w.Etcd.ExtendLeases() }),
		schedule.NewKind(1, "process replaced", replaceProcess),
		at(3, "no space while requests are late", func(w *world, h *host) {
			d := w.Between(20*time.Millisecond, simTimeout)
			h.set(schedule.LinkState{Odds: schedule.Odds{Late: 400, Broken: 1000}, SlowWatch: calm.SlowWatch})
			w.FillSpace(d)
			w.EndAfter(d, func() { h.set(calm) })
		}),
	}
}

// drawDuration draws the duration of a fault.
func (w *world) drawDuration() time.Duration { return w.Between(10*time.Millisecond, 2*simTTL) }

// replaceProcess ends a process, in an orderly way or not, and starts another one.
func replaceProcess(w *world, h *host) (wait func()) {
	p, how, closes, arrive := h.present(), w.Rand.IntN(3), w.Between(1, simTTL), w.Between(1, 3*simTTL)
	w.Counts.Count([]string{"processes killed", "processes closed", "processes stopped"}[how])
	if how == 0 {
		h.link.Disconnect()
		p.conn.SetHeld(true)
		p.cancel()
	}
	return func() {
		if how == 1 {
			ctx, cancel := contextFor(closes)
			p.close(ctx)
			cancel()
		}
		w.checks.ended(p)
		p.cancel()
		p.wg.Wait()
		time.AfterFunc(arrive, func() { p.conn.SetHeld(false) }) // requests in flight still arrive some day
		w.Mu.Lock()                                              // for the link
		defer w.Mu.Unlock()
		h.start()
	}
}

// placeName names a key while it stands.
func placeName(key string, create int64) string { return fmt.Sprint(key, " of ", create) }

// drawKey draws a key of a queue on a lease, or returns nil if there is none.
func (w *world) drawKey(lease int64) *mvccpb.KeyValue {
	var keys []*mvccpb.KeyValue
	for _, kv := range w.Etcd.Keys(w.keys.Prefix()) {
		if name, ok := w.nameOf(string(kv.Key)); ok && slices.Contains(w.names, name) &&
			strings.Contains(string(kv.Key), "/"+leaseName(lease)+"-") {
			keys = append(keys, kv)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return keys[w.Rand.IntN(len(keys))]
}
