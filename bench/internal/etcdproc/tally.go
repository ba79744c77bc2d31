package etcdproc

import (
	"context"
	"fmt"
	"time"
)

// Tally counts the server's work in a period of time, by its own counters.
type Tally struct {
	// Requests counts the messages that clients sent: calls and messages on streams (renewals, watch creations,
	// progress requests).
	Requests float64
	// Ranges counts the Range calls among them. It leaves out reads inside a Txn.
	Ranges float64
	// Txns counts the transactions among them, including those that only read.
	Txns float64
	// Asked counts the messages on watch streams: creations and cancellations of watches, and progress
	// requests.
	Asked float64
	// Renewals counts the lease renewals among them.
	Renewals float64
	// Puts and Deletes count the keys that were written and removed, by any request.
	Puts, Deletes float64
	// Delivered counts the messages sent to watches; one can carry several events.
	Delivered float64
	// Received and Sent count the bytes of messages, without the overhead of HTTP/2, TCP and IP.
	Received, Sent float64
	// CPU is the processor time of the whole server.
	CPU time.Duration
}

// These counters come from go-grpc-middleware and from etcd itself.
const (
	grpcLabels    = `{grpc_method=%q,grpc_service="etcdserverpb.%s",grpc_type=%q}`
	countReceived = "grpc_server_msg_received_total"
	countSent     = "grpc_server_msg_sent_total"
)

// Tally counts the server's work while f runs. Reading the counters does not count as a request.
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

// Add adds the counts of another period.
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
