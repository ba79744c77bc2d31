package connect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/wait"
)

// endpointMonitor looks after one client: it keeps the client's endpoints in line with etcd's members, and logs which
// addresses do not answer.
type endpointMonitor struct {
	cfg        Config
	client     *clientv3.Client
	tracker    *connTracker
	logged     map[string]loggedState // what was logged, by address
	configured []string

	cluster   uint64
	members   []etcdMember // from the last answer
	adopted   []string
	lastAsked time.Time // when etcd was last asked for its members
	missing   []string  // the addresses that did not answer at that time
}

// loggedState records what the log has reported about an address.
type loggedState struct {
	away    bool
	refused time.Time // when a refused certificate was last reported; zero: none is refused
}

// monitorClient looks after a client until it is closed. The client's Close waits until that has ended.
func (c Config) monitorClient(client *clientv3.Client, links *connTracker) {
	a := &endpointMonitor{cfg: c, client: client, tracker: links, logged: map[string]loggedState{},
		configured: c.addresses()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.run(client.Ctx())
	}()
	client.Watcher = monitoredWatcher{client.Watcher, done}
}

// monitoredWatcher is a Watcher that is closed with its client. The client's context has ended by then.
type monitoredWatcher struct {
	clientv3.Watcher
	done <-chan struct{}
}

// Close waits for the endpoint monitor and closes the watches.
func (w monitoredWatcher) Close() error {
	<-w.done
	return w.Watcher.Close()
}

func (a *endpointMonitor) run(ctx context.Context) {
	for wait.For(ctx, monitorEvery) {
		if !a.tracker.everConnected() {
			continue // etcd was never reached, which other code reports
		}
		now := time.Now()
		states := a.tracker.statesOf(hostPorts(a.configured), now)
		missing := awayAddresses(a.configured, states, now)
		if !a.cfg.FixedEndpoints {
			a.followMembers(ctx, missing, now)
		}
		a.logChanges(states, missing, now)
	}
}

func hostPorts(addresses []string) []string {
	out := make([]string, len(addresses))
	for i, address := range addresses {
		out[i] = hostPort(address)
	}
	return out
}

// followMembers asks for etcd's members. If a configured address does not answer, it makes the client use their
// addresses too.
func (a *endpointMonitor) followMembers(ctx context.Context, missing []string, now time.Time) {
	pause := membersEvery
	if len(missing) > 0 {
		pause = membersSoon
	}
	if now.Sub(a.lastAsked) < pause && slices.Equal(missing, a.missing) {
		return
	}
	a.lastAsked, a.missing = now, missing
	a.refreshMembers(ctx)
	adopted := []string{}
	if len(missing) > 0 {
		adopted = stillAdvertised(a.adopted, a.members)
		adopted = append(adopted, a.answeringURLs(ctx, candidateURLs(a.members,
			append(slices.Clone(a.configured), adopted...),
			a.cfg.usesTLS()))...)
	}
	if ctx.Err() != nil || slices.Equal(adopted, a.adopted) {
		return
	}
	a.adopted = adopted
	a.client.SetEndpoints(append(slices.Clone(a.configured), adopted...)...)
	if len(adopted) > 0 {
		a.cfg.Logger.Info("following etcd's members to addresses that were not given: name them in "+
			a.cfg.SettingNames.Address+" before the next start", "endpoints", strings.Join(adopted, ","))
		return
	}
	a.cfg.Logger.Info("all given addresses of etcd answer again: no others are used")
}

// refreshMembers asks etcd for its members. If etcd does not answer, the former list stays.
func (a *endpointMonitor) refreshMembers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	resp, err := a.client.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return
	}
	a.cluster, a.members = resp.Header.GetClusterId(), nil
	for _, m := range resp.Members {
		if m.Name != "" && !m.IsLearner { // it has started and is a voting member
			a.members = append(a.members, etcdMember{m.ID, m.ClientURLs})
		}
	}
}

// answeringURLs returns the candidates at which the expected member of etcd answers.
func (a *endpointMonitor) answeringURLs(ctx context.Context, all []candidateURL) (out []string) {
	found := make([]bool, len(all))
	var wg sync.WaitGroup
	for i, c := range all {
		if meansOtherMachine(c.url, a.configured) {
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, memberTimeout)
			defer cancel()
			resp, err := a.client.Status(ctx, c.url)
			found[i] = err == nil && resp.Header.GetClusterId() == a.cluster && resp.Header.GetMemberId() == c.member
		})
	}
	wg.Wait()
	for i, c := range all {
		if found[i] {
			out = append(out, c.url)
		}
	}
	return out
}

// logChanges logs, once for each change, which addresses do not answer, and repeatedly which ones have a certificate
// that is refused.
func (a *endpointMonitor) logChanges(states []addressState, missing []string, now time.Time) {
	for i, address := range a.configured {
		s, before := states[i], a.logged[address]
		after := before
		switch {
		case s.certificateErr != nil && s.openConns == 0:
			if before.refused.IsZero() || now.Sub(before.refused) >= remindEvery {
				after.refused = now
				a.cfg.Logger.Warn("no connection to etcd because of a certificate, retrying", "error",
					a.cfg.newProblem(badCertificate, address, s.certificateErr))
			}
		case s.openConns > 0 && (before.away || !before.refused.IsZero()):
			after = loggedState{}
			a.cfg.Logger.Info("an address of etcd answers again", "endpoint", address)
		case !before.away && slices.Contains(missing, address) && a.tracker.anyConnected():
			after.away = true
			a.cfg.Logger.Warn("an address of etcd does not answer, others do: start that member again, or name another one in "+
				a.cfg.SettingNames.Address, "endpoint", address, "answering",
				fmt.Sprintf("%d of %d", len(a.configured)-len(missing), len(a.configured)))
		}
		a.logged[address] = after
	}
}
