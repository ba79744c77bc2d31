// Command chat serves chat rooms as objects. Each room is on one node, which orders its messages and sends them
// to the subscribers; clients may call any node.
//
//	go run ./examples/chat
//	go run ./examples/chat -join lobby -name ann
//	go run ./examples/chat -join lobby -name bob
//
// The first command runs a node with an etcd of its own. The others each join a room, in a terminal of their
// own, and end with Ctrl-D. README.md shows several nodes, and how to kill one.
//
// A room survives its node. A message is stored in etcd before its post is acknowledged and before any
// subscriber sees it; the write is guarded by the room's epoch, so a former owner stores nothing. A post
// without an answer is repeated under the same request id and stored once. If a visitor's subscription ends,
// it subscribes again after the last number it received. So every visitor sees each message once, and all visitors
// see the same order. A room keeps its last 100 messages; a visitor that was away for longer is notified of the
// number it missed.
//
// # What is not promised
//
//   - Rooms do not outlive the first node's etcd, which is for trials only.
//   - etcd is no store for many rooms with constant writes. Package cluster/objects/state/postgres has one.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects/state/etcd"
	"github.com/goverse/goverse/cluster/slogger"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/examples/chat/chatpb"
	"github.com/goverse/goverse/node"
)

const startTimeout, stopTimeout = 30 * time.Second, 15 * time.Second

type config struct{ listen, etcd, etcdListen, join, name, nodes string }

func main() {
	var cfg config
	flag.StringVar(&cfg.listen, "listen", "127.0.0.1:47001", "`address` of this node, which the others must reach")
	flag.StringVar(&cfg.etcd, "etcd", "", "`address` of etcd; if there is none, this process runs one")
	flag.StringVar(&cfg.etcdListen, "etcd-listen", "127.0.0.1:2379", "`address` of the etcd of this process")
	flag.StringVar(&cfg.join, "join", "", "`room` to join, in place of being a node")
	flag.StringVar(&cfg.name, "name", "somebody", "whose `name` is on what is said in the room")
	flag.StringVar(&cfg.nodes, "nodes", "127.0.0.1:47001", "`addresses` of nodes to join through, with commas between")
	flag.Parse()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	run := serve
	if cfg.join != "" {
		run = joinRoom
	}
	if err := run(ctx, cfg, log); err != nil {
		log.Error("ended", "error", err)
		os.Exit(1)
	}
}

// serve runs a node until ctx ends.
func serve(ctx context.Context, cfg config, log *slog.Logger) (err error) {
	if cfg.etcd == "" {
		server, err := embedetcd.Start(ctx, embedetcd.Config{ListenClient: cfg.etcdListen})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		cfg.etcd = server.Endpoint()
	}
	clusterConfig := cluster.Config{EtcdAddress: cfg.etcd, EtcdPrefix: "/chat", Logger: slogger.New(log)}
	client, err := cluster.NewEtcdClient(clusterConfig)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	store, err := etcd.New(etcd.Config{Client: client, Prefix: "/chat-rooms"})
	if err != nil {
		return err
	}
	n, err := node.NewNode(node.Config{AdvertiseAddress: cfg.listen})
	if err != nil {
		return err
	}
	c, err := cluster.NewClusterWithNode(clusterConfig, n)
	if err != nil {
		return err
	}
	register(c, store)
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.Start(starting); err != nil {
		return err
	}
	log.Info("ready", "listen", n.AdvertiseAddress(), "etcd", cfg.etcd)
	select {
	case <-ctx.Done():
	case <-n.Done(): // its listener failed
	}
	stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return errors.Join(n.Err(), c.Stop(stopping))
}

// joinRoom connects the terminal to a room until the input or ctx ends.
func joinRoom(ctx context.Context, cfg config, log *slog.Logger) (err error) {
	v, err := newVisitor(cfg.nodes, cfg.join, cfg.name, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	ended := make(chan error, 2)
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	watching.Go(func() { ended <- v.subscribe(ctx, printMessage) })
	go func() { ended <- postLines(ctx, v, os.Stdin) }() // cannot be cancelled while it reads; ends with the process
	err = <-ended
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// printMessage prints a message.
func printMessage(m *chatpb.Message) {
	fmt.Printf("%4d %s: %s\n", m.GetNumber(), m.GetFrom(), m.GetText())
}

// postLines posts each line of the input.
func postLines(ctx context.Context, v *visitor, input io.Reader) error {
	lines := bufio.NewScanner(input)
	for lines.Scan() {
		if lines.Text() == "" {
			continue
		}
		if _, err := v.post(ctx, lines.Text()); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			fmt.Fprintln(os.Stderr, "chat:", err)
		}
	}
	return lines.Err()
}
