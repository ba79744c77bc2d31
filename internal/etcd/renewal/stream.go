package renewal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// errEnded is returned for requests on a stream that the refusal of another request ended.
var errEnded = errors.New("the stream of renewals ended")

// renewalStream is one stream of renewals. etcd answers its requests one after the other, in order.
type renewalStream struct {
	grpc   pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc

	sendMu sync.Mutex // keeps waiting in the order of sending

	mu       sync.Mutex
	waiting  []*renewalRequest
	used     bool
	answered bool
	ended    error
}

// renewalRequest waits for its answer. An abandoned request stays in the queue until etcd has answered it.
type renewalRequest struct {
	id     int64
	answer chan renewalAnswer // has room for one
}

type renewalAnswer struct {
	resp *pb.LeaseKeepAliveResponse
	err  error
}

func newStream(opened pb.Lease_LeaseKeepAliveClient, cancel context.CancelFunc) *renewalStream {
	return &renewalStream{grpc: opened, cancel: cancel}
}

// sendRenewal sends one request and waits for its answer. first reports whether it was the first one of this stream.
func (s *renewalStream) sendRenewal(ctx context.Context,
	id clientv3.LeaseID) (resp *pb.LeaseKeepAliveResponse, first bool, err error) {
	r := &renewalRequest{id: int64(id), answer: make(chan renewalAnswer, 1)}
	s.sendMu.Lock()
	s.mu.Lock()
	first = !s.used
	if ended := s.ended; ended != nil {
		s.mu.Unlock()
		s.sendMu.Unlock()
		return nil, first, ended
	}
	s.used = true
	s.waiting = append(s.waiting, r)
	s.mu.Unlock()
	// Recv reports the same error, with its reason.
	_ = s.grpc.Send(&pb.LeaseKeepAliveRequest{ID: r.id})
	s.sendMu.Unlock()
	select {
	case a := <-r.answer:
		return a.resp, first, a.err
	case <-ctx.Done():
		return nil, first, ctx.Err()
	}
}

// receiveAnswers delivers each answer to its request, until the stream ends.
func (s *renewalStream) receiveAnswers() {
	for {
		resp, err := s.grpc.Recv()
		if err != nil {
			s.failRequests(err)
			return
		}
		if r := s.takeRequest(resp.ID); r != nil {
			r.answer <- renewalAnswer{resp: resp}
		}
	}
}

// takeRequest records an answer for that lease. It removes the oldest request from the queue and returns it, nil if
// there is none.
func (s *renewalStream) takeRequest(id int64) *renewalRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = true
	i := slices.IndexFunc(s.waiting, func(r *renewalRequest) bool { return r.id == id })
	if i < 0 {
		return nil
	}
	r := s.waiting[i]
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return r
}

// hasAnswered reports whether etcd has answered a request of this stream.
func (s *renewalStream) hasAnswered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered
}

// failRequests fails all waiting requests. If etcd ended the stream by a refusal, the refusal concerns the first of
// them.
func (s *renewalStream) failRequests(err error) {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = err
	for i, r := range s.waiting {
		if i == 1 {
			err = fmt.Errorf("%w: %w", errEnded, err)
		}
		r.answer <- renewalAnswer{err: err}
	}
	s.waiting = nil
}
