package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cmd/goversed/internal/operator"
)

func nodeAddresses(ctx context.Context, o *operator.Operator, _ []string, _ string) (all []cobra.Completion,
	err error) {
	d, err := o.Read(ctx)
	for _, n := range d.Members {
		all = append(all, cobra.CompletionWithDesc(n.Address, strings.TrimSpace(n.State+" "+n.Hostname)))
	}
	return all, err
}

func electionNames(ctx context.Context, o *operator.Operator, _ []string, word string) (all []cobra.Completion,
	err error) {
	found, err := o.Elections(ctx, stepTimeout, namesFrom(word))
	return completeElections(found), err
}

func postgresElectionNames(ctx context.Context, at postgresPlace, _ []string, word string) (all []cobra.Completion,
	err error) {
	err = at.with(ctx, func(p *operator.Postgres) error {
		found, err := p.Elections(ctx, stepTimeout, namesFrom(word))
		all = completeElections(found)
		return err
	})
	return all, err
}

func completeElections(found operator.List[operator.NamedElection]) (all []cobra.Completion) {
	for _, e := range found.Items {
		all = appendName(all, e.Name, "led by "+e.LeaderID)
	}
	return all
}

// with calls do with a connection.
func (at postgresPlace) with(ctx context.Context, do func(p *operator.Postgres) error) error {
	p, err := operator.OpenPostgres(ctx, at.url, at.schema)
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }() // only what was read matters
	return do(p)
}

func candidatesOf(ctx context.Context, o *operator.Operator, args []string, _ string) (all []cobra.Completion,
	err error) {
	found, err := o.Elections(ctx, stepTimeout, namesFrom(args[0]))
	for _, e := range found.Items {
		if e.Name != args[0] {
			continue
		}
		for i, c := range e.Candidates {
			state := "candidate"
			if i == 0 {
				state = "leader"
			}
			all = appendName(all, c.Address, state)
		}
	}
	return all, err
}

func lockNames(ctx context.Context, o *operator.Operator, _ []string, word string) (all []cobra.Completion,
	err error) {
	found, err := o.Locks(ctx, stepTimeout, namesFrom(word))
	return completeLocks(found), err
}

func postgresLockNames(ctx context.Context, at postgresPlace, _ []string, word string) (all []cobra.Completion,
	err error) {
	err = at.with(ctx, func(p *operator.Postgres) error {
		found, err := p.Locks(ctx, stepTimeout, namesFrom(word))
		all = completeLocks(found)
		return err
	})
	return all, err
}

func completeLocks(found operator.List[operator.NamedLock]) (all []cobra.Completion) {
	for _, l := range found.Items {
		holder := ""
		if len(l.Holders) > 0 {
			holder = "held by " + l.Holders[0].Owner
		}
		all = appendName(all, l.Name, holder)
	}
	return all
}

// processorNames completes names of processors with checkpoints in etcd.
func processorNames(ctx context.Context, o *operator.Operator, _ []string, word string) ([]cobra.Completion, error) {
	p, err := o.Processors(stepTimeout)
	if err != nil {
		return nil, err
	}
	return completeProcessors(ctx, p, word)
}

// postgresProcessorNames completes names of processors with checkpoints in PostgreSQL.
func postgresProcessorNames(ctx context.Context, at postgresPlace, _ []string, word string) (all []cobra.Completion,
	err error) {
	err = at.withProcessors(ctx, func(p *operator.Processors) (err error) {
		all, err = completeProcessors(ctx, p, word)
		return err
	})
	return all, err
}

func completeProcessors(ctx context.Context, p *operator.Processors, word string) (all []cobra.Completion, err error) {
	found, err := p.List(ctx, stepTimeout, namesFrom(word))
	for _, s := range found.Items {
		all = appendName(all, s.Name, "")
	}
	return all, err
}

// withProcessors calls do with the processors.
func (at postgresPlace) withProcessors(ctx context.Context, do func(p *operator.Processors) error) error {
	p, err := operator.OpenPostgresProcessors(ctx, at.url, at.table)
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }() // only what was read matters
	return do(p)
}

// parkedPositions completes positions of events that the processor named by the first argument has parked.
func parkedPositions(ctx context.Context, o *operator.Operator, args []string, _ string) ([]cobra.Completion, error) {
	p, err := o.Processors(stepTimeout)
	if err != nil {
		return nil, err
	}
	return completeParked(ctx, p, args[0])
}

// postgresParkedPositions does the same for a processor with its checkpoint in PostgreSQL.
func postgresParkedPositions(ctx context.Context, at postgresPlace, args []string, _ string) (all []cobra.Completion,
	err error) {
	err = at.withProcessors(ctx, func(p *operator.Processors) (err error) {
		all, err = completeParked(ctx, p, args[0])
		return err
	})
	return all, err
}

func completeParked(ctx context.Context, p *operator.Processors, name string) (all []cobra.Completion, err error) {
	parked, err := p.Parked(ctx, name)
	for _, e := range parked.Items[:min(len(parked.Items), maxCompletions)] {
		all = appendName(all, string(e.Position), "")
	}
	return all, err
}

// effectNames completes names of effects; with unknown, only of those that can be resolved.
func effectNames(unknown bool) func(context.Context, *operator.Operator, []string, string) (
	[]cobra.Completion, error) {
	return func(ctx context.Context, o *operator.Operator, _ []string, word string) (all []cobra.Completion, err error) {
		found, err := o.Effects(ctx, stepTimeout, namesFrom(word), unknown)
		for _, e := range found.Items {
			all = appendName(all, e.Name, string(e.State))
		}
		return all, err
	}
}

// tokenOf completes the token of the effect that the first argument names.
func tokenOf(ctx context.Context, o *operator.Operator, args []string, _ string) ([]cobra.Completion, error) {
	e, err := o.Effect(ctx, args[0])
	if err != nil {
		return nil, err
	}
	return []cobra.Completion{cobra.CompletionWithDesc(strconv.FormatInt(e.Token, 10), string(e.State))}, nil
}

func etcdMemberNames(ctx context.Context, o *operator.Operator, _ []string, _ string) (all []cobra.Completion,
	err error) {
	found, err := o.EtcdMembers(ctx)
	for _, m := range found {
		if m.Name != "" {
			all = appendName(all, m.Name, m.State)
		}
	}
	return all, err
}

// namesFrom selects the names that begin with word.
func namesFrom(word string) operator.ListQuery {
	return operator.ListQuery{NamePrefix: word, Limit: maxCompletions}
}

// appendName appends a name that needs no quotes in a shell and for goversed. Others are left out.
func appendName(all []cobra.Completion, name, description string) []cobra.Completion {
	const special = " \t\r\n\"'`$&|;<>(){}[]*?!~#\\"
	if strings.ContainsAny(name, special) || strings.HasPrefix(name, "-") {
		return all
	}
	return append(all, cobra.CompletionWithDesc(name, description))
}
