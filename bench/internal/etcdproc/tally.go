package etcdproc

import (
	"context"
	"fmt"
	"time"
)

// Tally is what the server did over a window of time, by its own counters.
type Tally struct {
	// Requests are the messages that clients sent: calls, and those on streams
	// (a renewal, the opening of a watch, a question for its progress).
	Requests float64
	// Ranges are the Range calls among them. A read inside a Txn is none.
	Ranges float64
	// Txns are the transactions among them, those that only read included.
	Txns float64
	// Asked are those on watch streams: the opening and the end of a watch, and the
	// question how far it has come.
	Asked float64
	// Renewals of leases among them.
	Renewals float64
	// Puts and Deletes are keys that were written and removed, by whatever request.
	Puts, Deletes float64
	// Delivered are the messages sent to watches; one can carry several events.
	Delivered float64
	// Received and Sent are bytes of messages, without what HTTP/2, TCP and IP add.
	Received, Sent float64
	// CPU is the processor time of the whole server.
	CPU time.Duration
}

// The counters are those of go-grpc-middleware and of etcd itself.
const (
	grpcLabels    = `{grpc_method=%q,grpc_service="etcdserverpb.%s",grpc_type=%q}`
	countReceived = "grpc_server_msg_received_total"
	countSent     = "grpc_server_msg_sent_total"
)

// Tally counts what the server does while f runs. Reading the counters is no
// request in their sense.
func (p *Process) Tally(ctx context.Context, f func() error) (Tally, error) {
	before, err := p.Metrics(ctx)
	if err != nil {
		return Tally{}, err
	}
	if err := f(); err != nil {
		return Tally{}, err
	}
	after, err := p.Metrics(ctx)
	if err != nil {
		return Tally{}, err
	}
	var t Tally
	var cpu float64
	for metric, into := range map[string]*float64{
		countReceived: &t.Requests,
		countReceived + fmt.Sprintf(grpcLabels, "Range", "KV", "unary"):          &t.Ranges,
		countReceived + fmt.Sprintf(grpcLabels, "Txn", "KV", "unary"):            &t.Txns,
		countReceived + fmt.Sprintf(grpcLabels, "Watch", "Watch", "bidi_stream"): &t.Asked,
		"etcd_mvcc_put_total":                &t.Puts,
		"etcd_mvcc_delete_total":             &t.Deletes,
		"etcd_debugging_lease_renewed_total": &t.Renewals,
		countSent + fmt.Sprintf(grpcLabels, "Watch", "Watch", "bidi_stream"): &t.Delivered,
		"etcd_network_client_grpc_received_bytes_total":                      &t.Received,
		"etcd_network_client_grpc_sent_bytes_total":                          &t.Sent,
		"process_cpu_seconds_total":                                          &cpu,
	} {
		v, ok := after[metric]
		if !ok {
			return Tally{}, fmt.Errorf("etcd does not tell %s", metric)
		}
		*into = v - before[metric]
	}
	t.CPU = time.Duration(cpu * float64(time.Second))
	return t, nil
}

// Add adds what another window counted.
func (t *Tally) Add(o Tally) {
	t.Requests += o.Requests
	t.Ranges += o.Ranges
	t.Txns += o.Txns
	t.Asked += o.Asked
	t.Renewals += o.Renewals
	t.Puts += o.Puts
	t.Deletes += o.Deletes
	t.Delivered += o.Delivered
	t.Received += o.Received
	t.Sent += o.Sent
	t.CPU += o.CPU
}
