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

// attendant looks after one client: it keeps the client's endpoints in line with etcd's members, and logs which
// addresses do not answer.
type attendant struct {
	cfg    Config
	client *clientv3.Client
	links  *links
	said   map[string]said // what was logged, by address
	given  []string

	cluster uint64
	members []member // from the last answer
	adopted []string
	asked   time.Time // when etcd was last asked for its members
	missing []string  // the addresses that did not answer at that time
}

// said records what the log has reported about an address.
type said struct {
	away    bool
	refused time.Time // when a refused certificate was last reported; zero: none is refused
}

// attend looks after a client until it is closed. The client's Close waits until that has ended.
func (c Config) attend(client *clientv3.Client, links *links) {
	a := &attendant{cfg: c, client: client, links: links, said: map[string]said{}, given: c.addresses()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.run(client.Ctx())
	}()
	client.Watcher = attended{client.Watcher, done}
}

// attended is a Watcher that is closed with its client. The client's context has ended by then.
type attended struct {
	clientv3.Watcher
	done <-chan struct{}
}

// Close waits for the attendant and closes the watches.
func (w attended) Close() error {
	<-w.done
	return w.Watcher.Close()
}

func (a *attendant) run(ctx context.Context) {
	for wait.For(ctx, attendEvery) {
		if !a.links.reached() {
			continue // etcd was never reached, which other code reports
		}
		now := time.Now()
		states := a.links.look(hostPorts(a.given), now)
		missing := away(a.given, states, now)
		if !a.cfg.FixedEndpoints {
			a.follow(ctx, missing, now)
		}
		a.say(states, missing, now)
	}
}

func hostPorts(addresses []string) []string {
	out := make([]string, len(addresses))
	for i, address := range addresses {
		out[i] = hostPort(address)
	}
	return out
}

// follow asks for etcd's members. If a configured address does not answer, it makes the client use their
// addresses too.
func (a *attendant) follow(ctx context.Context, missing []string, now time.Time) {
	pause := membersEvery
	if len(missing) > 0 {
		pause = membersSoon
	}
	if now.Sub(a.asked) < pause && slices.Equal(missing, a.missing) {
		return
	}
	a.asked, a.missing = now, missing
	a.ask(ctx)
	adopted := []string{}
	if len(missing) > 0 {
		adopted = listed(a.adopted, a.members)
		adopted = append(adopted, a.answering(ctx, candidates(a.members, append(slices.Clone(a.given), adopted...),
			a.cfg.secure()))...)
	}
	if ctx.Err() != nil || slices.Equal(adopted, a.adopted) {
		return
	}
	a.adopted = adopted
	a.client.SetEndpoints(append(slices.Clone(a.given), adopted...)...)
	if len(adopted) > 0 {
		a.cfg.Logger.Info("following etcd's members to addresses that were not given: name them in "+
			a.cfg.Words.Address+" before the next start", "endpoints", strings.Join(adopted, ","))
		return
	}
	a.cfg.Logger.Info("all given addresses of etcd answer again: no others are used")
}

// ask asks etcd for its members. If etcd does not answer, the former list stays.
func (a *attendant) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	resp, err := a.client.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return
	}
	a.cluster, a.members = resp.Header.GetClusterId(), nil
	for _, m := range resp.Members {
		if m.Name != "" && !m.IsLearner { // it has started and is a voting member
			a.members = append(a.members, member{m.ID, m.ClientURLs})
		}
	}
}

// answering returns the candidates at which the expected member of etcd answers.
func (a *attendant) answering(ctx context.Context, all []candidate) (out []string) {
	found := make([]bool, len(all))
	var wg sync.WaitGroup
	for i, c := range all {
		if elsewhere(c.url, a.given) {
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

// say logs, once for each change, which addresses do not answer, and repeatedly which ones have a certificate
// that is refused.
func (a *attendant) say(states []link, missing []string, now time.Time) {
	for i, address := range a.given {
		s, before := states[i], a.said[address]
		after := before
		switch {
		case s.refused != nil && s.open == 0:
			if before.refused.IsZero() || now.Sub(before.refused) >= remindEvery {
				after.refused = now
				a.cfg.Logger.Warn("no connection to etcd because of a certificate, retrying", "error",
					a.cfg.problem(badCertificate, address, s.refused))
			}
		case s.open > 0 && (before.away || !before.refused.IsZero()):
			after = said{}
			a.cfg.Logger.Info("an address of etcd answers again", "endpoint", address)
		case !before.away && slices.Contains(missing, address) && a.links.connected():
			after.away = true
			a.cfg.Logger.Warn("an address of etcd does not answer, others do: start that member again, or name another one in "+
				a.cfg.Words.Address, "endpoint", address, "answering",
				fmt.Sprintf("%d of %d", len(a.given)-len(missing), len(a.given)))
		}
		a.said[address] = after
	}
}
