package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/examples/bank/bankpb"
)

const (
	// resumeEvery is the interval at which the leader looks for unfinished transfers. It skips those younger
	// than resumeAfter, because most of them are still running.
	resumeEvery, resumeAfter = time.Second, 2 * time.Second
	// resumeTimeout limits the call of one transfer. The others wait meanwhile; failed ones are called again.
	resumeTimeout = 5 * time.Second
)

// resumer resumes interrupted transfers while this node leads. One node does it only to save work: two of them
// would still carry out no transfer twice.
type resumer struct {
	cluster *cluster.Cluster
	db      *pgxpool.Pool
	log     *slog.Logger
}

// run resumes transfers while this node leads, until ctx ends or the cluster stops.
func (r *resumer) run(ctx context.Context) {
	_ = r.cluster.LeadEach(ctx, r.lead) // its error is one of these two reasons
}

// lead resumes transfers during one term.
func (r *resumer) lead(ctx context.Context, _ leaderelection.Term) error {
	again := time.NewTicker(resumeEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := r.resumeAll(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("cannot look for unfinished transfers, trying again", "error", err)
		}
	}
}

func (r *resumer) resumeAll(ctx context.Context) error {
	looking, cancel := context.WithTimeout(ctx, resumeTimeout)
	defer cancel()
	rows, err := r.db.Query(looking, "select transfer from bank_unfinished where since < now() - $1::interval "+
		"order by since", resumeAfter)
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, id := range ids {
		r.resumeOne(ctx, id)
		if ctx.Err() != nil {
			break
		}
	}
	return nil
}

func (r *resumer) resumeOne(ctx context.Context, id string) {
	calling, cancel := context.WithTimeout(ctx, resumeTimeout)
	defer cancel()
	reply, err := bankpb.NewTransferClient(r.cluster.Objects().At(id)).Resume(calling, &bankpb.ResumeRequest{})
	switch {
	case err == nil:
		r.log.Info("resumed", "transfer", id, "outcome", reply.GetOutcome())
	case ctx.Err() == nil:
		r.log.Warn("could not resume a transfer, trying again", "transfer", id, "error", err)
	}
}
