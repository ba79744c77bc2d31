//go:build unix

package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/examples/bank/bankpb"
	"github.com/goverse/goverse/examples/internal/trial"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/pgserver"
)

var (
	bankFor   = flag.Duration("bank.for", 10*time.Second, "how long there are transfers in TestNoMoneyIsMadeOrLost")
	bankKills = flag.Int("bank.kills", 6, "how many processes are killed meanwhile")
	bankSeed  = flag.Uint64("bank.seed", 0, "which, and when; 0 is another seed each time")
)

// accounts is the number of accounts, opening the opening balance of each, and callers the number of callers.
const accounts, opening, callers = 20, 100, 8

// attempt is a transfer requested by a caller.
type attempt struct {
	id      string
	request *bankpb.RunRequest
	outcome bankpb.Outcome // UNFINISHED: the caller left before the answer
}

// caller makes one transfer after the other. It repeats unanswered calls, except those of transfers that it
// abandons.
type caller struct {
	number   int
	bank     *client
	random   *rand.Rand
	attempts []attempt
}

func (c *caller) next(ctx context.Context) error {
	from := c.random.IntN(accounts)
	to := (from + 1 + c.random.IntN(accounts-1)) % accounts
	a := attempt{id: fmt.Sprintf("caller %d, transfer %d", c.number, len(c.attempts)),
		request: &bankpb.RunRequest{From: name(from), To: name(to), Amount: 1 + c.random.Int64N(opening)}}
	switch c.random.IntN(20) {
	case 0:
		a.request.From = "nobody"
	case 1:
		a.request.To = "nobody"
	}
	var err error
	switch c.random.IntN(8) {
	case 0:
		short, leave := context.WithTimeout(ctx, time.Duration(c.random.IntN(20_000))*time.Microsecond)
		a.outcome, err = c.bank.transfer(short, a.id, a.request)
		leave()
		if err != nil && ctx.Err() == nil { // the caller abandons this transfer
			a.outcome, err = bankpb.Outcome_UNFINISHED, nil
		}
	case 1:
		err = c.callTwice(ctx, &a)
	default:
		a.outcome, err = c.bank.transfer(ctx, a.id, a.request)
	}
	if err == nil && c.random.IntN(8) == 0 {
		var again bankpb.Outcome
		again, err = c.bank.transfer(ctx, a.id, a.request)
		if err == nil && a.outcome != bankpb.Outcome_UNFINISHED && again != a.outcome {
			err = fmt.Errorf("%s was answered with %v, and then with %v", a.id, a.outcome, again)
		}
		a.outcome = again
	}
	c.attempts = append(c.attempts, a)
	return err
}

// callTwice makes two concurrent calls of the same transfer.
func (c *caller) callTwice(ctx context.Context, a *attempt) error {
	var other bankpb.Outcome
	var failed error
	var beside sync.WaitGroup
	beside.Go(func() { other, failed = c.bank.transfer(ctx, a.id, a.request) })
	var err error
	a.outcome, err = c.bank.transfer(ctx, a.id, a.request)
	beside.Wait()
	switch {
	case err != nil:
		return err
	case failed == nil && other != a.outcome:
		return fmt.Errorf("%s was answered with %v and with %v", a.id, a.outcome, other)
	}
	return failed
}

func name(i int) string { return fmt.Sprint("account ", i) }

// Three nodes are killed and started again, one or several at a time, during transfers between all accounts.
// Acknowledged transfers are in the ledger once, refused ones are not, all are finished, and the total is
// unchanged.
func TestNoMoneyIsMadeOrLost(t *testing.T) {
	t.Parallel()
	seed := *bankSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-bank.seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	etcd, database := etcdtest.Start(t), pgserver.StartForTest(t).URL()
	addresses := []string{free(t), free(t), free(t)}
	nodes := make([]*fault.Process, len(addresses))
	for i, address := range addresses {
		nodes[i] = launch(t, address, database, "-etcd", etcd.Endpoint())
	}
	for _, p := range nodes {
		ready(t, p)
	}
	db, b := connect(t, database), newClient(t, addresses...)
	for i := range accounts {
		outcome, err := b.open(etcdtest.Context(t), name(i), opening)
		require.NoError(t, err)
		require.Equal(t, bankpb.Outcome_DONE, outcome)
	}

	ctx, cancel := context.WithTimeout(context.Background(), *bankFor+2*patience)
	defer cancel()
	var over atomic.Bool
	var calling sync.WaitGroup
	defer calling.Wait()
	defer over.Store(true)
	all := make([]*caller, callers)
	for i := range all {
		c := &caller{number: i, bank: newClient(t, addresses...), random: rand.New(rand.NewPCG(seed, uint64(i+1)))}
		c.bank.current.Store(int64(i)) // each starts with another node
		all[i] = c
		calling.Go(func() {
			for !over.Load() {
				if !assert.NoError(t, c.next(ctx)) {
					return
				}
			}
		})
	}
	started := slices.Clone(nodes)
	killNodes(t, random, nodes, func(i int) *fault.Process {
		p := launch(t, addresses[i], database, "-etcd", etcd.Endpoint())
		started = append(started, p)
		return p
	})
	over.Store(true)
	calling.Wait()
	require.False(t, t.Failed())

	require.Eventually(t, func() bool { return number(t, db, "select count(*) from bank_unfinished") == 0 }, patience,
		20*time.Millisecond, "all transfers are finished, whether somebody asks or not")
	outcomes := map[bankpb.Outcome]int{}
	left := 0
	var attempts []attempt
	for _, c := range all {
		for _, a := range c.attempts {
			if a.outcome == bankpb.Outcome_UNFINISHED {
				left++
				a.outcome = outcomeOf(t, b, a.id)
			}
			outcomes[a.outcome]++
			attempts = append(attempts, a)
		}
	}
	balances := map[string]int64{}
	for i := range accounts {
		balance, err := b.balance(etcdtest.Context(t), name(i))
		require.NoError(t, err)
		balances[name(i)] = balance
	}
	require.NoError(t, judge(ledgerOf(t, db), balances, attempts))
	require.NotZero(t, outcomes[bankpb.Outcome_DONE])
	trial.Stop(t, nodes...)
	resumed := 0
	for _, p := range started {
		resumed += strings.Count(p.Output(), "msg=resumed")
	}
	t.Logf("%d transfers: %v; %d were abandoned, %d were resumed", len(attempts), outcomes, left, resumed)
}

// killNodes kills nodes and starts them again until the time is over.
func killNodes(t *testing.T, random *rand.Rand, nodes []*fault.Process, start func(i int) *fault.Process) {
	t.Helper()
	end := time.Now().Add(*bankFor)
	pause := func(d time.Duration) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		<-timer.C
	}
	for kills := *bankKills; kills > 0; {
		share := max(time.Until(end), time.Second) / 2 / time.Duration(kills)
		pause(time.Duration(random.Int64N(int64(2 * share))))
		down := random.Perm(len(nodes))[:min(kills, 1+random.IntN(len(nodes)))]
		for _, i := range down {
			_, err := nodes[i].Kill()
			require.NoError(t, err)
		}
		kills -= len(down)
		pause(time.Duration(random.Int64N(int64(share))))
		for _, i := range down {
			nodes[i] = start(i)
		}
		for _, i := range down {
			ready(t, nodes[i])
		}
	}
	pause(max(time.Until(end), 0))
}

// outcomeOf returns the recorded outcome of a transfer, UNFINISHED if there is none.
func outcomeOf(t *testing.T, b *client, id string) (outcome bankpb.Outcome) {
	t.Helper()
	err := b.call(etcdtest.Context(t), id, func(ctx context.Context, conn *grpc.ClientConn) error {
		reply, err := bankpb.NewTransferClient(conn).Resume(ctx, &bankpb.ResumeRequest{})
		outcome = reply.GetOutcome()
		return err
	})
	if status.Code(err) != codes.NotFound {
		require.NoError(t, err)
	}
	return outcome
}

// row is a row of the ledger.
type row struct {
	Request, Account string
	Amount           int64
}

func ledgerOf(t *testing.T, db *pgxpool.Pool) []row {
	t.Helper()
	rows, err := db.Query(etcdtest.Context(t), "select request, account, amount from bank_ledger")
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	require.NoError(t, err)
	return all
}

// judge returns the faults in the ledger and the balances, given the outcomes of the transfers.
func judge(ledger []row, balances map[string]int64, attempts []attempt) error {
	of := map[string][]row{} // by transfer
	sums := map[string]int64{}
	for _, r := range ledger {
		of[r.Request] = append(of[r.Request], r)
		sums[r.Account] += r.Amount
	}
	for _, a := range attempts {
		rows := of[a.id]
		delete(of, a.id)
		if a.outcome != bankpb.Outcome_DONE {
			if len(rows) != 0 {
				return fmt.Errorf("%s is %v, and the ledger has %v", a.id, a.outcome, rows)
			}
			continue
		}
		want := map[row]int{{a.id, a.request.GetFrom(), -a.request.GetAmount()}: 1,
			{a.id, a.request.GetTo(), a.request.GetAmount()}: 1}
		for _, r := range rows {
			want[r]--
		}
		for r, missing := range want {
			if missing != 0 {
				return fmt.Errorf("%s is done, and the ledger has %v: %d of %v are missing", a.id, rows, missing, r)
			}
		}
	}
	if len(of) != accounts {
		return fmt.Errorf("the ledger has %d requests that are no transfers, and %d opened accounts", len(of), accounts)
	}
	total := int64(0)
	for name, balance := range balances {
		switch {
		case balance < 0:
			return fmt.Errorf("%s has %d", name, balance)
		case balance != sums[name]:
			return fmt.Errorf("%s has %d, and %d in the ledger", name, balance, sums[name])
		}
		total += balance
	}
	if total != accounts*opening {
		return fmt.Errorf("there are %d, and were %d", total, accounts*opening)
	}
	return nil
}
