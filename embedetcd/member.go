package embedetcd

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/pkg/v3/types"
)

// Endpoints returns the URLs at which clients reach the members of the cluster, as this member knows them:
// first its own, then the others' in order. It leaves out learners and members that have not served yet,
// because they do not answer; this member's own URL is always included.
func (s *Server) Endpoints() []string {
	own := urlOf(s.cfg.ClientTLS, advertisedAddress(s.cfg, s.endpoint))
	out := []string{own.String()}
	var others []string
	for _, m := range s.etcd.Server.Cluster().Members() {
		if m.ID != s.etcd.Server.MemberID() && !m.IsLearner {
			others = append(others, m.ClientURLs...)
		}
	}
	slices.Sort(others)
	return append(out, slices.Compact(others)...)
}

// Leads reports whether this member is etcd's leader.
func (s *Server) Leads() bool { return s.etcd.Server.Lead() == uint64(s.etcd.Server.MemberID()) }

// moveLeadership moves etcd's leadership to another member if this one has it, and returns when that one leads. It
// reports whether this member does not lead any more. It tries each other member once, for an election timeout.
func (s *Server) moveLeadership() bool {
	server := s.etcd.Server
	own, began, tried := uint64(server.MemberID()), time.Now(), 0
	for _, m := range server.Cluster().Members() {
		if !s.Leads() {
			break
		}
		if uint64(m.ID) == own || m.IsLearner {
			continue
		}
		tried++
		ctx, cancel := context.WithTimeout(context.Background(), s.cfg.ElectionTimeout)
		err := server.MoveLeader(ctx, own, uint64(m.ID))
		cancel()
		if err == nil {
			s.log.Info("etcd's leadership was handed over", "to", m.Name, "took", time.Since(began).Round(time.Millisecond))
			return true
		}
	}
	if tried > 0 && s.Leads() {
		s.log.Warn("etcd's leadership could not be handed over: no other member took it; if any run, they elect one of them")
		return false
	}
	return true
}

// checkAddress fails if the cluster knows this member by another peer address than the configured one, because
// the others could not reach it.
func (s *Server) checkAddress() error {
	if len(s.cfg.Peers) == 0 {
		return nil
	}
	own := urlOf(s.cfg.PeerTLS, s.cfg.Peers[s.cfg.Name])
	m := s.etcd.Server.Cluster().Member(s.etcd.Server.MemberID())
	if m == nil || slices.Contains(m.PeerURLs, own.String()) {
		return nil
	}
	return fmt.Errorf("embedetcd: %w: Peers has %s for %s, and the data in %s is of a member at %v: give the address "+
		"that it has, or another DataDir", ErrPeerAddress, own.String(), s.cfg.Name, s.cfg.DataDir, m.PeerURLs)
}

// removedFromCluster asks the other members and reports whether they do not know this one any more.
func (s *Server) removedFromCluster() bool {
	id := s.etcd.Server.MemberID()
	if len(s.cfg.Peers) < 2 {
		return false
	}
	if s.etcd.Server.IsIDRemoved(uint64(id)) {
		return true
	}
	rt, err := transport.NewTransport(s.cfg.PeerTLS.transportInfo(), askTimeout)
	if err != nil {
		return false
	}
	rt.DisableKeepAlives = true
	client := &http.Client{Transport: rt, Timeout: askTimeout}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	for name, address := range s.cfg.Peers {
		if name == s.cfg.Name {
			continue
		}
		members, err := askMembers(ctx, client, s.cfg.PeerTLS.scheme()+"://"+address)
		if err != nil {
			continue
		}
		known := false
		for _, m := range members {
			known = known || m.ID == id
		}
		return !known
	}
	return false
}

func removedError(c Config, id types.ID) error {
	return fmt.Errorf("embedetcd: %w: the cluster has removed member %s: move %s away and start with an empty "+
		"directory, once a member was added in its place", ErrRemoved, id, c.DataDir)
}
