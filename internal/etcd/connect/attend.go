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

// attendant looks after one client: it has it follow etcd's members, and says which addresses do not answer.
type attendant struct {
	cfg    Config
	client *clientv3.Client
	links  *links
	said   map[string]said // by address
	given  []string

	cluster uint64
	members []member // as they were last known
	adopted []string
	asked   time.Time // etcd for its members
	missing []string  // the addresses that did not answer then
}

// said is what the log has of an address.
type said struct {
	away    bool
	refused time.Time // when it was last said that a certificate is refused; zero: it is not
}

// attend looks after a client until it is closed; its Close waits for that.
func (c Config) attend(client *clientv3.Client, links *links) {
	a := &attendant{cfg: c, client: client, links: links, said: map[string]said{}, given: c.addresses()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.run(client.Ctx())
	}()
	client.Watcher = attended{client.Watcher, done}
}

// attended is closed with its client, whose context has ended by then.
type attended struct {
	clientv3.Watcher
	done <-chan struct{}
}

// Close closes the watches, and waits for the attendant.
func (w attended) Close() error {
	<-w.done
	return w.Watcher.Close()
}

func (a *attendant) run(ctx context.Context) {
	for wait.For(ctx, attendEvery) {
		if !a.links.reached() {
			continue // it has not reached etcd yet, which others say
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

// follow asks for etcd's members, and has the client use them where an address that was given does not answer.
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

// ask asks etcd for its members; without an answer those from before stay.
func (a *attendant) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	resp, err := a.client.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return
	}
	a.cluster, a.members = resp.Header.GetClusterId(), nil
	for _, m := range resp.Members {
		if m.Name != "" && !m.IsLearner { // it was started, and serves
			a.members = append(a.members, member{m.ID, m.ClientURLs})
		}
	}
}

// answering are the candidates at which that very member of etcd answers.
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

// say says, once for each event, which addresses do not answer, and where a certificate is refused.
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
