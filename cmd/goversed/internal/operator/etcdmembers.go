package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/goverse/goverse/cluster"
)

// memberTimeout limits the status request to one member of etcd.
const memberTimeout = 2 * time.Second

// States of a member of etcd.
const (
	EtcdLeader     = "leader"
	EtcdFollower   = "follower"
	EtcdLearner    = "learner"
	EtcdNotStarted = "not started" // it was added, and has not served yet
	EtcdNoAnswer   = "no answer"
)

// ErrNoMajority is returned when members of etcd answer, but too few to read or change anything.
var ErrNoMajority = errors.New("etcd has no leader")

// EtcdMember is a member of etcd's own cluster.
type EtcdMember struct {
	ID         string   `json:"id"` // in hex, as etcdctl shows it
	Name       string   `json:"name"`
	State      string   `json:"state"`
	Learner    bool     `json:"is_learner"`
	PeerURLs   []string `json:"peer_urls"`
	ClientURLs []string `json:"client_urls"`
	RaftIndex  uint64   `json:"raft_index"` // 0 if it does not answer
	number     uint64
}

// answered reports whether the member answered a status request.
func (m EtcdMember) answered() bool { return m.State != EtcdNotStarted && m.State != EtcdNoAnswer }

// EtcdMembers lists the members of etcd by name, and asks each for its status. It returns ErrNoMajority and the
// errors of Read.
func (o *Operator) EtcdMembers(ctx context.Context) ([]EtcdMember, error) {
	var listed []*etcdserverpb.Member
	err := o.etcd.Ask(ctx, "a role", func(ctx context.Context) error {
		resp, err := o.client.MemberList(ctx)
		if err == nil {
			listed = resp.Members
		}
		return err
	})
	if err != nil {
		return nil, o.majorityError(ctx, err)
	}
	all := make([]EtcdMember, len(listed))
	var wg sync.WaitGroup
	for i, m := range listed {
		wg.Go(func() { all[i] = o.askMember(ctx, m) })
	}
	wg.Wait()
	slices.SortFunc(all, func(a, b EtcdMember) int {
		return strings.Compare(a.Name+" "+a.ID, b.Name+" "+b.ID)
	})
	return all, nil
}

// majorityError returns ErrNoMajority if a member answers that it has no leader, and otherwise err.
func (o *Operator) majorityError(ctx context.Context, err error) error {
	if !errors.Is(err, cluster.ErrEtcdUnreachable) {
		return err
	}
	for _, endpoint := range o.client.Endpoints() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), memberTimeout)
		st, failed := o.client.Status(ctx, endpoint)
		cancel()
		if failed == nil && st.Leader == 0 {
			return fmt.Errorf("%w: %s answers, and no more than half of the members do; start the others, or restore a backup "+
				"where their data is lost", ErrNoMajority, endpoint)
		}
	}
	return err
}

func (o *Operator) askMember(ctx context.Context, m *etcdserverpb.Member) EtcdMember {
	out := EtcdMember{ID: fmt.Sprintf("%x", m.ID), Name: m.Name, Learner: m.IsLearner, PeerURLs: m.PeerURLs,
		ClientURLs: m.ClientURLs, State: EtcdNoAnswer, number: m.ID}
	if m.Name == "" {
		out.State = EtcdNotStarted
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	for _, url := range m.ClientURLs {
		st, err := o.client.Status(ctx, url)
		if err != nil || st.Header.MemberId != m.ID { // another member may have the address now
			continue
		}
		out.RaftIndex = st.RaftIndex
		switch {
		case st.IsLearner:
			out.State = EtcdLearner
		case st.Leader == m.ID:
			out.State = EtcdLeader
		default:
			out.State = EtcdFollower
		}
		break
	}
	return out
}

// PrintEtcdMembers writes a table of the members of etcd.
func PrintEtcdMembers(out io.Writer, all []EtcdMember, asJSON bool) error {
	if asJSON {
		return printJSON(out, newList(all))
	}
	w := &tableWriter{out: out}
	w.writeRow("NAME", "STATE", "PEER", "CLIENTS", "RAFT INDEX", "ID")
	for _, m := range all {
		index := "-"
		if m.RaftIndex > 0 {
			index = fmt.Sprint(m.RaftIndex)
		}
		w.writeRow(orDash(m.Name), m.State, strings.Join(m.PeerURLs, ","), orDash(strings.Join(m.ClientURLs, ",")), index,
			m.ID)
	}
	return w.flush()
}
