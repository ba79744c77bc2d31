//go:build unix

package chaos

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/node"
)

// ProgramEnv names the environment variable that makes a copy of the test binary a node. It holds the
// configuration.
const ProgramEnv = "GOVERSE_INTEGRATION_CHAOS_NODE"

const (
	// registerKey is the key that leaders write under their fence.
	registerKey   = "/chaos/register"
	clusterPrefix = "/chaos/cluster"
	tickKey       = clusterPrefix + "/nothing" // in the range that every node watches
	// writeEvery is the interval of each node's guarded writes and reads.
	writeEvery = 25 * time.Millisecond

	startPatience = 2 * time.Minute
	stopPatience  = 10 * time.Second
)

// programConfig is the configuration of a node.
type programConfig struct {
	Advertise, Listen, Etcd string
	TTL                     int
	Record                  string          // the file for its recorded claims
	Ledger                  string          // the file that effects write to
	Began                   history.Instant // start of the world
	DetectionOff            bool
	SilenceTimeout          time.Duration
	Paths                   map[string]string // by the address of another node: the relay on the path to it
}

// These are the requests that a node accepts on its standard input, one per line; it answers with a line.
const (
	askFreezeWatch = "freeze-watch"
	askThawWatch   = "thaw-watch"
	askStatus      = "status"
	askSettle      = "settle"
	saidSettled    = "settled"
)

// Program runs one node of a world until SIGTERM. It returns the exit code.
func Program(encoded string) int {
	if err := runProgram(encoded); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runProgram(encoded string) (err error) {
	var cfg programConfig
	if err := json.Unmarshal([]byte(encoded), &cfg); err != nil {
		return err
	}
	log := hclog.New(&hclog.LoggerOptions{Name: cfg.Advertise, Level: hclog.Debug, Output: os.Stderr})
	file, err := os.Create(cfg.Record)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	n, err := node.NewNode(node.Config{AdvertiseAddress: cfg.Advertise, ListenAddress: cfg.Listen,
		Logger: log.Named("node")})
	if err != nil {
		return err
	}
	ccfg := cluster.Config{EtcdAddress: cfg.Etcd, EtcdPrefix: clusterPrefix, LeaderElectionTTL: cfg.TTL, Logger: log,
		FixedEndpoints: true} // not around the faults, to the addresses that etcd's members advertise
	ccfg.CrashDetection.Off, ccfg.CrashDetection.SilenceTimeout = cfg.DetectionOff, cmp.Or(cfg.SilenceTimeout, -1)
	ccfg.DialOptions = pathOptions(cfg.Paths)
	if ccfg.Client, err = cluster.NewEtcdClient(ccfg); err != nil {
		return errors.Join(err, n.Close())
	}
	defer func() { _ = ccfg.Client.Close() }() // the error reports only the cancelled context
	faults := etcdfault.Inject(ccfg.Client)
	rec := history.NewRecorder(file, cfg.Advertise)
	defer func() { err = errors.Join(err, rec.Stop()) }()
	ledger, err := history.OpenLedger(cfg.Ledger)
	if err != nil {
		return errors.Join(err, n.Close())
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	owner := newShardWriter(rec, cfg.Advertise, ccfg.Client)
	ccfg.Sharding = owner.shardingConfig()
	ccfg.Objects = objectsConfig()
	c, err := cluster.NewClusterWithNode(ccfg, n)
	if err != nil {
		return errors.Join(err, n.Close())
	}
	session := func() int64 { return int64(c.Session().ID()) }
	if err := hostObjects(c, ccfg.Client, rec.Objects(cfg.Advertise, session)); err != nil {
		return errors.Join(err, n.Close())
	}
	rec.Add(history.NodeOf(cfg.Advertise, c).WithShards(c))

	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	startCtx, cancelStart := context.WithTimeout(ctx, startPatience)
	defer cancelStart()
	if err := c.Start(startCtx); err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() { rec.Register(cfg.Advertise, ccfg.Client, registerKey).Work(ctx, writeEvery, history.TermOf(c)) })
	wg.Go(func() { owner.visitShards(ctx, c.Shards()) })
	under := newLockUser(rec, cfg.Advertise, c, ccfg.Client, ledger, cfg.Began)
	wg.Go(func() { under.useLocks(ctx) })
	go serveRequests(os.Stdin, os.Stdout, c, faults, under) // ends with the process, because it waits for input
	fmt.Println("started")
	<-ctx.Done()
	wg.Wait()
	stopCtx, cancelStop := context.WithTimeout(context.Background(), stopPatience)
	defer cancelStop()
	return c.Stop(stopCtx)
}

// serveRequests serves the parent's requests.
func serveRequests(in io.Reader, out io.Writer, c *cluster.Cluster, faults *etcdfault.Faults, under *lockUser) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		switch lines.Text() {
		case askFreezeWatch:
			faults.FreezeWatch()
			fmt.Fprintln(out, "frozen")
		case askThawWatch:
			faults.ThawWatch()
			fmt.Fprintln(out, "thawed")
		case askSettle:
			said := saidSettled
			if err := under.settle(context.Background()); err != nil {
				said = strings.ReplaceAll(err.Error(), "\n", "; ")
			}
			fmt.Fprintln(out, said)
		case askStatus:
			st, held := c.Status(), c.Session()
			said, err := json.Marshal(status{State: string(st.State), LeaderID: st.LeaderID, Nodes: st.Nodes,
				Queue: st.Queue, Ready: st.Ready, Rebuilds: st.Rebuilds, Revision: st.Revision, Lease: int64(held.ID()),
				Renewed: held.Renewed(), Watchers: st.Watchers, Serves: servedShards(c.Shards())})
			if err != nil {
				said = []byte(err.Error())
			}
			fmt.Fprintf(out, "%s\n", said)
		}
	}
}

// status is a node's view of itself and its cluster.
type status struct {
	State, LeaderID string
	Nodes, Queue    []string
	Ready           bool
	Rebuilds        int64
	Revision        int64         // of the newest change it has seen
	Lease           int64         // of its session, 0 without one
	Renewed         time.Time     // when the renewal was sent from which its session's time counts
	Watchers        int           // other nodes that watch it
	Serves          map[int]int64 // served shards with their epochs
}
