package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/consensusmanager"
	"github.com/goverse/goverse/internal/crash"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/member"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/modeletcd"
	"github.com/goverse/goverse/internal/wait"
)

// process is one process with one node: a real member with its own connections to etcd and to others.
// The time-outs of the simulated members are the defaults of a cluster.
const (
	requestTimeout = 2 * time.Second
	workTimeout    = 5 * time.Second
)

type process struct {
	w      *world
	host   *host
	id     string // the instance id
	conn   *modeletcd.Conn
	member *member.Member

	client *clientv3.Client
	node   *nodeNetwork // the network side

	ctx           context.Context // ends when the process dies
	cancel        context.CancelFunc
	wg            sync.WaitGroup // goroutines beside its member
	dead          atomic.Bool
	stopRequested bool          // it was asked to stop
	viewSince     time.Duration // since when it has a view; 0 if it has none

	randMu        sync.Mutex
	rand          *rand.Rand           // for retries
	requestCounts [requestKinds]uint64 // requests so far

	user  nodeUser
	facts processFacts
}

// startProcess runs a new process on the host.
func (h *host) startProcess() {
	w := h.w
	h.startCount++
	p := &process{w: w, host: h, id: fmt.Sprintf("%s#%d", h.address, h.startCount)}
	p.rand = newRand(w.seed, streamOf("retries", p.id))
	p.user, p.facts = newNodeUser(p), newProcessFacts(w)
	p.node = &nodeNetwork{p: p, watcherLost: wait.NewSignal()}
	p.conn = w.etcd.ConnectTo(h.nextMember, p.id, p.drawDelivery)
	p.conn.SetProxied(h.roles.proxied)
	p.conn.SetFrozen(h.link().frozen)
	p.conn.SetHeld(h.link().held || h.standsStill())
	p.client = p.conn.Client()
	p.ctx, p.cancel = context.WithCancel(context.Background())
	var err error
	if p.member, err = member.New(p.config()); err != nil {
		panic(err) // the configuration is valid
	}
	w.checks.recordStart(p)
	w.alter(func() { h.process = p })
	w.log.addProcessLine(p, "starts")
	w.wg.Go(p.runCore)
}

func (p *process) config() member.Config {
	w, r := p.w, p.host.roles
	c := member.Config{Client: p.client, Keys: w.keys, TTL: w.ttl, RequestTimeout: requestTimeout,
		WorkTimeout: workTimeout, Address: p.host.address,
		Record:   state.Record{InstanceID: p.id, Shards: r.shards, Observer: r.observer},
		Observer: r.observer, Fallback: r.fallback,
		Detection: crash.Settings{Off: !w.crashDetection}.WithDefaults(), Dialer: p.node,
		WatcherLost: p.node.watcherLost, Identify: p.node.identify, Planning: w.planSettings(r.shards),
		Clock: p.host.now, Random: p.drawFraction, Logger: logger{Logger: hclog.NewNullLogger(), p: p}}
	if r.excluded {
		c.Record.Labels = excluded
	}
	if r.shards > 0 {
		c.Shards = &consensusmanager.ShardsConfig{Shards: r.shards, DrainTimeout: w.ttl, OnRelease: p.user.release}
		if r.asked {
			c.Shards.OnAcquire = p.user.acquire
		}
	}
	return c
}

// excluded are the labels of members that get no shards.
var excluded = map[string]string{"role": "gateway"}

func (w *world) planSettings(shards int) shardplan.Settings {
	return shardplan.Settings{Shards: shards, Window: w.window, MinMembers: 1, Exclude: excluded, Budget: 20 * w.shards}
}

func (p *process) drawFraction() float64 {
	p.randMu.Lock()
	defer p.randMu.Unlock()
	return p.rand.Float64()
}

// runCore runs the process until it has ended.
func (p *process) runCore() {
	p.member.Start()
	err := p.member.Join(p.ctx)
	if err == nil {
		p.wg.Go(func() { p.member.Consensus.Run(p.ctx) })
		p.wg.Go(p.user.runUser)
		<-p.ctx.Done()
	}
	if err != nil && p.ctx.Err() == nil { // it cannot join, for example at an occupied address
		p.w.log.addProcessLine(p, "gives up: %v", err)
		p.member.Detector.Stop(p.ctx)
		_ = p.member.EndSession() // otherwise its lease expires
	}
	if p.dead.CompareAndSwap(false, true) {
		p.w.mu.Lock()
		p.node.closeStreams(false)
		p.w.alter(func() { p.host.process = nil })
		p.w.startAgain(p.host)
		p.w.mu.Unlock()
	}
	p.cancel()
	p.member.Detector.Stop(p.ctx)
	_ = p.member.EndSession() // nothing of it reaches etcd if the process is dead
	_ = p.member.Consensus.Stop(p.ctx)
	p.member.Close()
	p.wg.Wait()
}

// stopCore does the steps of Cluster.Stop with the core, in the same order.
func (p *process) stopCore() {
	if p.stopRequested {
		return
	}
	p.w.alter(func() { p.stopRequested = true })
	p.w.log.addProcessLine(p, "begins to stop")
	p.wg.Go(func() {
		ctx, checks := p.ctx, &p.w.checks
		marked := p.member.MarkStopping(ctx)
		cut := p.member.Consensus.Withdraw(ctx)
		if marked {
			cut = errors.Join(cut, checks.recordHandover(p, p.member.HandOverShards(ctx)))
		} else {
			checks.countOccurrence(StopCut)
		}
		cut = errors.Join(cut, p.member.ReleaseShards(ctx))
		p.member.Detector.Stop(ctx)
		p.w.mu.Lock()
		p.node.closeStreams(true)
		p.w.mu.Unlock()
		if p.host.roles.drains {
			<-ctx.Done() // a call takes forever
		}
		wait.For(ctx, p.drawDelay("serves to the end", 200*time.Millisecond))
		if cut == nil {
			p.member.MarkLeft(ctx)
		}
		last := p.session()
		if p.member.EndSession() != nil || ctx.Err() != nil {
			checks.countOccurrence(StopSilent)
		} else {
			checks.checkStop(p, last)
		}
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		p.killProcess(false)
	})
}

// killProcess ends the process at once, as SIGKILL does. Its kernel closes its sockets unless the host is lost too. The
// caller holds w.mu.
func (p *process) killProcess(withHost bool) {
	if p.dead.Swap(true) {
		return
	}
	p.w.log.addProcessLine(p, "is gone")
	p.node.breakStreams(withHost)
	p.w.alter(func() { p.host.process = nil })
	p.conn.SetFrozen(true)
	p.cancel()
}

// leads reports whether the process leads, as LeaderElection.IsLeader does.
func (p *process) leads() bool { return p.member.Consensus.IsLeader() }

// session returns the present session, or nil between two.
func (p *process) session() *etcdsession.Session { return p.member.Keeper.Current() }

// drawDelay draws a duration up to d for an activity of the process.
func (p *process) drawDelay(what string, d time.Duration) time.Duration {
	return drawBetween(newRand(p.w.seed, streamOf(what, p.id)), 0, d)
}
