package etcdsession

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/test/modeletcd"
	"github.com/goverse/goverse/internal/test/schedule"
)

// scheduleLasts is the time with faults in a schedule, and scheduleRecover the time after them within which
// every session must be valid.
const (
	scheduleLasts   = 2 * time.Minute
	scheduleRecover = 30 * time.Second
	scheduleTTL     = 10 * time.Second
)

// leasesEnded is the event that etcd ended a lease.
const leasesEnded = "leases ended by etcd"

// world runs keepers of sessions over an etcd of three members, which stop, stutter and are cut off.
type world struct {
	*schedule.World
	ctx context.Context
	wg  sync.WaitGroup

	mu       sync.Mutex
	sessions map[int64]*Session // by lease
	keepers  []*Keeper
}

// play runs one schedule.
func play(base *schedule.World) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &world{World: base, ctx: ctx, sessions: map[int64]*Session{}}
	w.RequestTimeout = 1900 * time.Millisecond
	w.StartEtcd(3)
	w.Etcd.Changed = w.checkChange
	w.Mu.Lock()
	for i := range 3 {
		w.startProcess(i)
	}
	w.Mu.Unlock()
	for w.Now() < scheduleLasts && w.Failure() == "" {
		w.Mu.Lock()
		lasts := w.beginFault() + w.Between(0, 3*time.Second)
		w.Mu.Unlock()
		pass(lasts)
	}
	w.Mu.Lock()
	w.HealAll()
	w.Mu.Unlock()
	w.awaitSessions()
	cancel()
	w.wg.Wait()
	w.Etcd.Close()
}

// checkChange is called at each change in etcd. No session may rely on a lease that etcd has ended.
func (w *world) checkChange(now, before *mvccpb.KeyValue, by *modeletcd.Conn) {
	if now != nil || before == nil || before.Lease == 0 || by != nil {
		return
	}
	w.Log.Addf("etcd", "lease %d has ended", before.Lease)
	w.Counts.Count(leasesEnded)
	w.mu.Lock()
	s := w.sessions[before.Lease]
	w.mu.Unlock()
	if s != nil && s.Valid() {
		w.Fail("etcd ended lease %d, its session is valid for %v more", before.Lease, s.TimeLeft())
	}
}

// startProcess starts a process that maintains a session and a key on it. It is bound to one member of etcd, or asks
// all in turn.
func (w *world) startProcess(i int) {
	link := w.NewLink(fmt.Sprint("process ", i))
	link.Member, link.Roams = w.Rand.IntN(3), w.OneIn(4)
	link.MaxHop = 5 * time.Millisecond
	link.Change(func(s *schedule.LinkState) { s.Odds.Delayed = 50 })
	w.Log.Addf(link.Name, "roams %t, to member %d", link.Roams, link.Member)
	conn := link.Connect(link.Name, func(request any) modeletcd.Delivery {
		d, _ := link.Deliver(0, request)
		return d
	})
	client := conn.Client()
	registrations := 0
	cfg := Config{Process: etcd.Process{Client: client}, TTL: scheduleTTL}
	k, err := NewKeeper(cfg, Hooks{Register: func(ctx context.Context,
		s *Session) error {
		w.mu.Lock()
		w.sessions[int64(s.ID())] = s
		w.mu.Unlock()
		w.Log.Addf(link.Name, "lease %d", s.ID())
		registrations++
		key := fmt.Sprint("/node/", i, "/", registrations) // an old key may exist until its lease ends
		created := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
		resp, err := client.Txn(ctx).If(created).Then(clientv3.OpPut(key, "", clientv3.WithLease(s.ID()))).Commit()
		if err == nil && !resp.Succeeded {
			err = fmt.Errorf("%s exists", key)
		}
		if err != nil {
			return err
		}
		s.ProtectKey(key, resp.Header.Revision, nil)
		return nil
	}, OnLost: func(s *Session, lost *session.LostError) {
		stands := slices.ContainsFunc(w.Etcd.Leases(), func(l modeletcd.Lease) bool { return l.ID == int64(s.ID()) })
		if lost.Reason == session.ReasonRevoked && stands {
			w.Fail("the session of lease %d was given up, and the lease stands", s.ID())
		}
	}})
	if err != nil {
		panic(err)
	}
	w.keepers = append(w.keepers, k)
	w.wg.Go(func() {
		for w.ctx.Err() == nil {
			_ = k.Run(w.ctx) // a first registration that fails is final
		}
	})
}

// beginFault begins a fault, and returns its duration.
func (w *world) beginFault() (lasts time.Duration) {
	switch victim := w.AnyMember(4); w.Rand.IntN(6) {
	case 0:
		lasts = w.Between(time.Second, 15*time.Second)
		w.StopMember(victim, lasts)
	case 1, 2:
		first, runs, second := w.Between(4*time.Second, 9*time.Second), w.Between(0, 2*time.Second),
			w.Between(3*time.Second, 14*time.Second)
		lasts = first + runs + second
		w.Stutter(victim, first, runs, second)
	case 3:
		lasts = w.Between(time.Second, 12*time.Second)
		w.CutMember(victim, lasts)
	case 4:
		w.MoveLead()
	case 5:
		lasts = w.Between(time.Second, 8*time.Second)
	}
	return lasts
}

// awaitSessions waits until every process has a valid session.
func (w *world) awaitSessions() {
	for healed := w.Now(); w.Now() < healed+scheduleRecover; pass(100 * time.Millisecond) {
		valid := 0
		for _, k := range w.keepers {
			if s := k.Current(); s != nil && s.Valid() {
				valid++
			}
		}
		if valid == len(w.keepers) {
			return
		}
	}
	w.Fail("a process has no valid session %v after the last fault", scheduleRecover)
}
