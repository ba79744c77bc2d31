package etcdsession

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/test/modeletcd"
)

// scheduleLasts is the time with faults in a schedule, and scheduleRecover the time after them within which
// every session must be valid.
const (
	scheduleLasts   = 2 * time.Minute
	scheduleRecover = 30 * time.Second
	scheduleTTL     = 10 * time.Second
)

// schedule runs keepers of sessions over an etcd of three members, which stop, stutter and are cut off, in
// virtual time. A seed determines a schedule.
type schedule struct {
	rand *rand.Rand
	e    *modeletcd.Etcd
	ctx  context.Context
	wg   sync.WaitGroup

	mu       sync.Mutex
	began    time.Time
	log      strings.Builder
	sessions map[int64]*Session // by lease
	keepers  []*Keeper
	ended    int // number of leases that etcd ended
	failure  string
}

// simulate runs one schedule. It returns the failure, "" if there is none, and a log of the events.
func simulate(t *testing.T, seed uint64) (failure, log string, ended int) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		w := &schedule{rand: rand.New(rand.NewPCG(seed, 12)), ctx: ctx, began: time.Now(), sessions: map[int64]*Session{}}
		w.e = modeletcd.NewCluster(3, w.between)
		w.e.Changed = w.changed
		for i := range 3 {
			w.process(i)
		}
		for time.Since(w.began) < scheduleLasts && w.failed() == "" {
			w.fault()
		}
		w.heal()
		w.settle()
		cancel()
		w.wg.Wait()
		w.e.Close()
		failure, log, ended = w.failure, w.log.String(), w.ended
	})
	return failure, log, ended
}

// between draws a duration. Callers may hold the model's lock, but not the schedule's own.
func (w *schedule) between(least, most time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if most <= least {
		return least
	}
	return least + time.Duration(w.rand.Int64N(int64(most-least)))
}

func (w *schedule) one(n int) int { return int(w.between(0, time.Duration(n))) }

func (w *schedule) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(&w.log, "%10.3fs  %s\n", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
}

func (w *schedule) failed() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// changed is called at each change in etcd. No session may rely on a lease that etcd has ended.
func (w *schedule) changed(now, before *mvccpb.KeyValue, by *modeletcd.Conn) {
	if now != nil || before == nil || before.Lease == 0 || by != nil {
		return
	}
	w.say("etcd ends lease %d", before.Lease)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended++
	if s := w.sessions[before.Lease]; s != nil && s.Valid() && w.failure == "" {
		w.failure = fmt.Sprintf("etcd ended lease %d at %v, its session is valid for %v more", before.Lease,
			time.Since(w.began), s.TimeLeft())
	}
}

// process maintains a session and a key on it. It is bound to one member, or asks all in turn.
func (w *schedule) process(i int) {
	turn, bound := 0, w.one(4) > 0
	home := w.one(3)
	to := func() int {
		if bound {
			return home
		}
		turn++
		return turn % 3
	}
	conn := w.e.ConnectTo(to, fmt.Sprint("process ", i), func(any) modeletcd.Delivery {
		slow := 5 * time.Millisecond
		if w.one(20) == 0 {
			slow = 1900 * time.Millisecond
		}
		return modeletcd.Delivery{Out: w.between(0, 5*time.Millisecond), Back: w.between(0, slow)}
	})
	w.say("process %d: bound %t, to member %d", i, bound, home)
	client := conn.Client()
	registrations := 0
	k, err := NewKeeper(KeeperConfig{Config: Config{Client: client, TTL: scheduleTTL}, Register: func(ctx context.Context,
		s *Session) error {
		w.mu.Lock()
		w.sessions[int64(s.ID())] = s
		w.mu.Unlock()
		w.say("process %d: lease %d", i, s.ID())
		registrations++
		key := fmt.Sprint("/node/", i, "/", registrations) // an old key may exist until its lease ends
		created := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
		resp, err := client.Txn(ctx).If(created).Then(clientv3.OpPut(key, "", clientv3.WithLease(s.ID()))).Commit()
		if err == nil && !resp.Succeeded {
			err = fmt.Errorf("%s is there", key)
		}
		if err != nil {
			return err
		}
		s.ProtectKey(key, resp.Header.Revision, nil)
		return nil
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

// fault causes one fault and waits until it is over, or for part of that time.
func (w *schedule) fault() {
	leader := w.e.Leader()
	victim := leader
	if victim < 0 || w.one(4) == 0 {
		victim = w.one(3)
	}
	stand := func(least, most time.Duration) {
		w.e.SetStopped(victim, true)
		pass(w.between(least, most))
		w.e.SetStopped(victim, false)
	}
	switch w.one(6) {
	case 0:
		w.say("member %d (leader %d) stops for a while", victim, leader)
		stand(time.Second, 15*time.Second)
	case 1, 2:
		w.say("member %d (leader %d) stutters", victim, leader)
		stand(4*time.Second, 9*time.Second)
		pass(w.between(0, 2*time.Second))
		stand(3*time.Second, 14*time.Second)
	case 3:
		w.say("member %d (leader %d) is cut off", victim, leader)
		w.e.SetCut(victim, true)
		pass(w.between(time.Second, 12*time.Second))
		w.e.SetCut(victim, false)
	case 4:
		to := w.one(3)
		w.say("member %d is to lead instead of %d", to, leader)
		w.e.Transfer(to)
	case 5:
		pass(w.between(time.Second, 8*time.Second))
	}
	pass(w.between(0, 3*time.Second))
}

func (w *schedule) heal() {
	w.say("all is well again")
	for i := range 3 {
		w.e.SetStopped(i, false)
		w.e.SetCut(i, false)
	}
}

// settle waits until every process has a valid session.
func (w *schedule) settle() {
	for end := time.Now().Add(scheduleRecover); ; pass(100 * time.Millisecond) {
		valid := 0
		for _, k := range w.keepers {
			if s := k.Current(); s != nil && s.Valid() {
				valid++
			}
		}
		if valid == len(w.keepers) {
			return
		}
		if time.Now().After(end) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.failure == "" {
				w.failure = fmt.Sprintf("%d of %d processes have a valid session, %v after the last fault", valid, len(w.keepers),
					scheduleRecover)
			}
			return
		}
	}
}
