//go:build linux

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/history"
)

// aloneEnv makes a copy of the test binary a process of an election by itself. It holds an aloneConfig.
const aloneEnv = "GOVERSE_INTEGRATION_ALONE"

const alonePrefix = "/it-alone"

// aloneConfig configures one process.
type aloneConfig struct {
	ID, Etcd, Record string
	TTL              time.Duration
	// Lies makes the process claim for this long that it still leads, after it has handed over.
	Lies time.Duration
}

func init() {
	if config, asked := os.LookupEnv(aloneEnv); asked {
		if err := runAlone(config); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

func (c aloneConfig) encode(t testing.TB) string {
	text, err := json.Marshal(c)
	require.NoError(t, err)
	return string(text)
}

// runAlone takes part in the election until SIGTERM, and records every millisecond whether this process leads.
func runAlone(encoded string) (err error) {
	var cfg aloneConfig
	if err := json.Unmarshal([]byte(encoded), &cfg); err != nil {
		return err
	}
	file, err := os.Create(cfg.Record)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()

	election, runner, err := leaderelection.New(leaderelection.Config{EtcdAddress: cfg.Etcd, EtcdPrefix: alonePrefix,
		ID: cfg.ID, TTL: cfg.TTL, Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: os.Stderr})})
	if err != nil {
		return err
	}
	asked := history.ElectionOf(cfg.ID, election)
	if cfg.Lies > 0 {
		asked.Leads = lyingLeads(asked.Leads)
	}
	recorder := history.NewRecorder(file, cfg.ID)
	defer func() { err = errors.Join(err, recorder.Stop()) }()
	recorder.Add(asked)
	if err := runner.Start(ctx); err != nil {
		return err
	}
	fmt.Println("started")
	<-ctx.Done()
	err = runner.Stop(context.Background())
	procs.SleepUntil(time.Now().Add(cfg.Lies))
	return err
}

// lyingLeads returns leads, but the last term never ends.
func lyingLeads(leads func() (bool, int64)) func() (bool, int64) {
	var last int64
	return func() (bool, int64) {
		if yes, token := leads(); yes {
			last = token
		}
		return last != 0, last
	}
}
