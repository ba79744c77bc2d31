package main

import (
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/daemon"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/logs/logqueue"
)

// Usage texts of flags that several commands have.
const (
	ttlUsage      = "TTL of a node's session in etcd, in whole seconds: etcd may be away for that long"
	logLevelUsage = "lowest level to log: trace, debug, info, warn, error or off"
)

// nodeFlags holds the flags of goversed node as given.
type nodeFlags struct {
	etcd                      etcdFlags
	listen, advertise, http   string
	tls                       nodeTLSFlags
	api                       nodeHTTPFlags
	env                       func(string) (string, bool)
	ttl                       time.Duration
	embedded                  embeddedFlags
	logLevel                  string
	logJSON                   bool
	observer                  bool
	fallback                  string
	crashDetection            string
	crash                     cluster.CrashDetection
	shards                    shardFlags
	labels                    map[string]string
	weight                    int
	startTimeout, stopTimeout time.Duration
}

func newNode(env func(string) (string, bool)) *cobra.Command {
	f := &nodeFlags{env: env}
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Run a node until SIGTERM or SIGINT",
		Long: `Run a node. It joins the cluster under --prefix in etcd, queues for leadership, serves gRPC
(health and reflection) at --listen, and serves its status as JSON at --http.

Without --etcd the node starts an embedded etcd, which stores its data in --data-dir. Other nodes
join the cluster with the address of that etcd as their --etcd.

With --etcd-cluster the embedded etcd is one member of an etcd cluster. Run three or five such
nodes, each on its own machine, and start them in any order. A new etcd cluster serves once all of
them run, and from then on while more than half of them run. If a machine loses its data, replace
its member with goversed etcd replace.

The first SIGTERM or SIGINT stops the node gracefully: it hands over its leadership and its shards,
and leaves the cluster. A second one stops it immediately. Files of certificates and passwords are
read again when they change, and at SIGHUP.`,
		Example: `  goversed node
  goversed node --etcd 127.0.0.1:2379 --listen 127.0.0.1:47002 --http 127.0.0.1:48002
  goversed node --etcd-name a --etcd-cluster a=http://10.0.0.1:2380,b=http://10.0.0.2:2380,c=http://10.0.0.3:2380 \
    --etcd-listen 10.0.0.1:2379 --listen 10.0.0.1:47001
  goversed node --etcd https://a:2379,https://b:2379 --etcd-cacert ca.pem --listen :47001 --advertise host1:47001
  goversed node --etcd a:2379 --listen host1:47001 --node-cert node.pem --node-key node-key.pem --node-ca ca.pem
  goversed node --http 0.0.0.0:48001 --http-cert http.pem --http-key http-key.pem --admin-token-file tokens
  GOVERSE_ETCD=127.0.0.1:2379 GOVERSE_TTL=5s goversed node
  curl http://127.0.0.1:48001/cluster/status`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runNode(cmd, f) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.listen, "listen", "127.0.0.1:47001", "`host:port` for gRPC; port 0 picks a free port")
	fs.StringVar(&f.advertise, "advertise", "", "`host:port` at which others reach this node; it identifies the "+
		"node (default: --listen)")
	fs.StringVar(&f.http, "http", "127.0.0.1:48001",
		"`host:port` for the status API; port 0 picks a free port, \"none\" turns the API off")
	f.api.register(fs)
	f.tls.register(fs)
	f.etcd.register(fs, "", etcdUsage+" (default: an embedded etcd, see --etcd-listen)")
	f.embedded.register(fs)
	fs.DurationVar(&f.ttl, "ttl", 10*time.Second, ttlUsage)
	fs.BoolVar(&f.observer, "observer", false, "register this node, but never queue it for leadership")
	fs.StringVar(&f.fallback, "fallback", "name", "leader while the election itself does not work: name (the "+
		"node with the smallest address) or none")
	fs.StringVar(&f.crashDetection, "crash-detection", "on",
		"on: remove other nodes as soon as their processes are gone; off: wait until their leases expire")
	fs.IntVar(&f.crash.Watchers, "crash-watchers", suspicion.DefaultWatchers,
		"number of other nodes that each node watches")
	fs.DurationVar(&f.crash.SilenceTimeout, "silence-timeout", suspicion.DefaultSilenceTimeout,
		"replace this node within this time if its process stands still or its host is lost, although its lease runs on; "+
			"0, the default with a --ttl below 7s, leaves that to the lease")
	fs.DurationVar(&f.crash.GracePeriod, "crash-grace-period", suspicion.DefaultGracePeriod,
		"time that a suspected node has to answer before it is removed")
	fs.IntVar(&f.crash.Confirmations, "crash-confirmations", suspicion.DefaultConfirmations,
		"number of refused connections in a row after which a node is suspected")
	f.shards.register(fs)
	fs.StringToStringVar(&f.labels, "label", nil, "`key=value` that the other nodes see; can be repeated")
	fs.Lookup("label").DefValue = "" // the help would show []
	fs.IntVar(&f.weight, "weight", 1, "this node's share of the shards, relative to the weights of the others")
	fs.DurationVar(&f.startTimeout, "start-timeout", 30*time.Second, "limit for the start; 0 means no limit, which is "+
		"the default with --etcd-cluster")
	fs.DurationVar(&f.stopTimeout, "stop-timeout", 15*time.Second, "limit for a graceful stop; 0 means no limit")
	fs.StringVar(&f.logLevel, "log-level", "info", logLevelUsage)
	fs.BoolVar(&f.logJSON, "log-json", false, "write the log as JSON, one object per line")
	return cmd
}

func runNode(cmd *cobra.Command, f *nodeFlags) error {
	cfg, err := f.config(cmd)
	if err == nil {
		err = f.etcd.nameFlag(cfg.Validate())
	}
	if err != nil {
		return cli.WrapUsage(cmd.CommandPath(), err)
	}
	if err := f.etcd.openPassword(cfg.Logger); err != nil {
		return err
	}
	ctx, cut, release := withSignals(cmd.Context())
	defer release()
	d, err := daemon.New(cfg)
	if err != nil {
		return err
	}
	defer onHangup(d.Reload)()
	return d.Run(ctx, cut)
}

// config checks what only the command line shows, and leaves the rest to Validate.
func (f *nodeFlags) config(cmd *cobra.Command) (daemon.Config, error) {
	embedded := f.etcd.address == ""
	var without []string
	reason := "configures the embedded etcd, which --etcd replaces: leave one of them out"
	switch {
	case !embedded:
		without = embeddedNames()
	case f.embedded.serve.CertFile == "":
		without, reason = certFlags(), "only has a meaning with --etcd or --etcd-serve-cert: add one of them"
	}
	for _, name := range without {
		if cmd.Flags().Changed(name) {
			return daemon.Config{}, fmt.Errorf("--%s %s", name, reason)
		}
	}
	var etcd embedetcd.Config
	if embedded {
		var err error
		if etcd, err = f.embedded.config(); err != nil {
			return daemon.Config{}, err
		}
	}
	startTimeout := f.startTimeout
	if len(etcd.Peers) > 1 && !cmd.Flags().Changed("start-timeout") {
		startTimeout = 0 // it waits for the other members
	}
	if f.weight < 1 {
		return daemon.Config{}, fmt.Errorf("--weight %d: give a number from 1 up", f.weight)
	}
	if err := checkTTL(f.ttl); err != nil {
		return daemon.Config{}, err
	}
	if err := f.checkCrash(cmd.Flags().Changed("silence-timeout")); err != nil {
		return daemon.Config{}, err
	}
	sharding, err := f.shards.config()
	if err != nil {
		return daemon.Config{}, err
	}
	http := f.http
	if http == "none" { // an empty variable counts as unset
		http = ""
	}
	log, err := f.newLogger(cmd)
	if err != nil {
		return daemon.Config{}, err
	}
	cfg := daemon.Config{
		Listen: f.listen, Advertise: f.advertise, HTTP: http, TLS: f.tls.tlsConfig(),
		HTTPTLS: f.api.tlsConfig(), Admin: f.api.adminConfig(f.env), EtcdTLS: f.etcd.tlsConfig(),
		Cluster: cluster.Config{LeaderElectionTTL: int(f.ttl / time.Second), Observer: f.observer, CrashDetection: f.crash,
			Sharding: sharding,
			Labels:   f.labels, Weight: f.weight, Version: version(), Logger: log},
		Etcd:         etcd,
		StartTimeout: startTimeout, StopTimeout: f.stopTimeout, Logger: log,
	}
	switch f.fallback {
	case "name":
		cfg.Cluster.Fallback = cluster.FallbackByName
	case "none":
		cfg.Cluster.Fallback = cluster.FallbackNone
	default:
		return daemon.Config{}, fmt.Errorf("--fallback %q: give name or none", f.fallback)
	}
	return cfg, f.etcd.applySettings(&cfg.Cluster)
}

// checkCrash checks the flags of crash detection and sets f.crash. It rejects zeros, because in the library they
// select the defaults. silence reports whether the silence time-out was given.
func (f *nodeFlags) checkCrash(silence bool) error {
	if !silence {
		f.crash.SilenceTimeout = 0
	}
	switch {
	case f.crashDetection != "on" && f.crashDetection != "off":
		return fmt.Errorf("--crash-detection %q: give on or off", f.crashDetection)
	case f.crash.Watchers < 1:
		return fmt.Errorf("--crash-watchers %d: give a number from 1 up, or --crash-detection off", f.crash.Watchers)
	case f.crash.GracePeriod < suspicion.LeastGracePeriod:
		return fmt.Errorf("--crash-grace-period %v: give at least %v; 100ms is a good one",
			f.crash.GracePeriod, suspicion.LeastGracePeriod)
	case 3*f.crash.GracePeriod > f.ttl:
		return fmt.Errorf("--crash-grace-period %v: give at most a third of --ttl (%v), or a lease runs out sooner",
			f.crash.GracePeriod, f.ttl)
	case f.crash.SilenceTimeout != 0 && f.crash.SilenceTimeout < suspicion.LeastSilenceTimeout:
		return fmt.Errorf("--silence-timeout %v: give at least %v, or 0 to leave silent nodes to their leases; 3.5s is a "+
			"good one", f.crash.SilenceTimeout, suspicion.LeastSilenceTimeout)
	case f.crash.SilenceTimeout >= f.ttl:
		return fmt.Errorf("--silence-timeout %v: give less than --ttl (%v), which runs out as soon, or 0",
			f.crash.SilenceTimeout, f.ttl)
	case f.crash.Confirmations < 1:
		return fmt.Errorf("--crash-confirmations %d: give a number from 1 up", f.crash.Confirmations)
	}
	f.crash.Off = f.crashDetection == "off"
	if silence && f.crash.SilenceTimeout == 0 {
		f.crash.SilenceTimeout = -1
	}
	return nil
}

func (f *nodeFlags) newLogger(cmd *cobra.Command) (hclog.Logger, error) {
	level, err := parseLevel(f.logLevel)
	if err != nil {
		return nil, err
	}
	log := hclog.New(&hclog.LoggerOptions{Name: cmd.Root().Name(), Level: level, Output: cmd.ErrOrStderr(),
		JSONFormat: f.logJSON})
	if f.logJSON {
		log = jsonLog{log}
	}
	return logqueue.New(log), nil
}

// checkTTL checks that etcd can grant the --ttl.
func checkTTL(ttl time.Duration) error {
	if ttl < time.Second || ttl > 24*time.Hour || ttl%time.Second != 0 {
		return fmt.Errorf("--ttl %v: give whole seconds from 1s to 24h; 10s is a good one", ttl)
	}
	return nil
}

func parseLevel(name string) (hclog.Level, error) {
	level := hclog.LevelFromString(name)
	if level == hclog.NoLevel {
		return level, fmt.Errorf("--log-level %q: give trace, debug, info, warn, error or off", name)
	}
	return level, nil
}
