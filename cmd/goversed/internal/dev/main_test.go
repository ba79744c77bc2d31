package dev

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/node"
)

// TestMain lets this binary run as a node, because Run needs a program to start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "node":
			if err := runTestNode(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		case "never":
			fmt.Fprintln(os.Stderr, "these words are the last")
			os.Exit(3)
		case "parent":
			runTestParent()
		}
	}
	goleak.VerifyTestMain(m)
}

// runTestNode runs a minimal node, without HTTP and log.
func runTestNode(args []string) error {
	flags := map[string]string{}
	for i := 0; i+1 < len(args); i += 2 {
		flags[args[i]] = args[i+1]
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ttl, err := strconv.Atoi(strings.TrimSuffix(flags["--ttl"], "s"))
	if err != nil {
		return err
	}
	n, err := node.NewNode(node.Config{AdvertiseAddress: flags["--listen"]})
	if err != nil {
		return err
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: flags["--etcd"], EtcdPrefix: flags["--prefix"],
		LeaderElectionTTL: ttl}, n)
	if err != nil {
		return err
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "joined at", flags["--log-level"])
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return c.Stop(last)
}

// runTestParent runs dev until it is killed.
func runTestParent() {
	err := Run(context.Background(), Config{Nodes: 2, TTL: 2 * time.Second, Command: []string{os.Args[0], "node"},
		Stdout: os.Stdout})
	fmt.Println("ended:", err)
	os.Exit(1)
}
