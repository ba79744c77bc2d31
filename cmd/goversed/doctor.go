package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/doctor"
	"github.com/goverse/goverse/cmd/goversed/internal/doctor/diagnosis"
	"github.com/goverse/goverse/cmd/goversed/internal/operator"
	"github.com/goverse/goverse/internal/etcd/access"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/node/mtls"
)

type doctorFlags struct {
	operatorFlags
	program string
	ttl     time.Duration
	nodes   nodeTLSFlags
	httpCA  string
}

func newDoctor() *cobra.Command {
	f := &doctorFlags{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find problems with etcd or PostgreSQL, access rights, or the cluster",
		Long: `Check etcd and the cluster as a node would, and report each problem with its remedy. Give the
same flags as for the nodes. doctor checks

  endpoints       which do not answer, and why
  etcd            its quorum, alarms, space, known faults of its version, and its speed for --ttl
  access control  the rights that etcd denies to the user
  prefix          whether it is the intended one, and has values that no node can read
  cluster         its leader, whether each node answers at its address, and leases left behind

With --postgres doctor checks PostgreSQL as a program with a session would: whether it takes writes,
poolers, its settings, free connections, the time of a commit against --ttl (3s by default), clocks,
the tables and the user's rights, sessions without heartbeats, claims left behind, transactions that
hold up others, and the nodes.

Each finding is one line: ok, note, warning (it works until something else fails too) or problem.
Run doctor on a machine of a node: it checks connections only from where it runs. It leaves nothing
behind: it revokes its own leases, and deletes its only key, which is below PREFIX/nodes-doctor/. In
PostgreSQL it writes nothing but five empty messages to the write-ahead log.

Exit codes: 0 no problem, 1 a problem, 2 the command line is wrong.`,
		Example: `  goversed doctor --etcd a:2379,b:2379,c:2379 --ttl 10s
  GOVERSE_ETCD_PASSWORD=secret goversed doctor --etcd https://a:2379 --etcd-cacert ca.pem --etcd-user goverse
  GOVERSE_POSTGRES=postgres://host/db goversed doctor
  goversed doctor -o json | jq -r '.findings[] | select(.severity == "problem") | .says'`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd, f) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	f.etcd.register(fs, defaultEtcd, etcdUsage)
	f.postgres.register(fs, "with the sessions of programs without etcd")
	fs.DurationVar(&f.ttl, "ttl", 10*time.Second, "the --ttl of the nodes; in PostgreSQL, the deadline of the sessions")
	fs.StringVar(&f.program, "for", string(access.Node), "program to check the rights in etcd for: node, election, exec, "+
		"lock or operator")
	f.nodes.register(fs)
	fs.StringVar(&f.httpCA, "http-ca", "", "PEM `file` with the certificate authorities of the nodes' --http-cert "+
		"(default: those of this machine)")
	fs.DurationVar(&f.timeout, "timeout", 20*time.Second, "limit for all checks together")
	fs.StringVarP(&f.output, "output", "o", "text", outputUsage)
	return cmd
}

// doctorOfEtcd lists the flags of doctor, beside those of the connection, that do not concern PostgreSQL.
var doctorOfEtcd = []string{"for", "node-cert", "node-key", "node-ca", "http-ca"}

func runDoctor(cmd *cobra.Command, f *doctorFlags) error {
	inPostgres, err := f.postgres.used(cmd, doctorOfEtcd...)
	switch {
	case err != nil:
		return cli.WrapUsage(cmd.CommandPath(), err)
	case inPostgres:
		return runPostgresDoctor(cmd, f)
	}
	cfg, release, err := f.config(cmd)
	if errors.Is(err, mtls.ErrExpired) {
		return errors.Join(doctor.Print(cmd.OutOrStdout(), []diagnosis.Finding{{Check: diagnosis.CheckCerts,
			Severity: diagnosis.Problem, Description: err.Error(), Remedy: "write a new one into its file"}},
			f.output == "json"),
			&cli.ExitCodeError{Code: cli.ExitFailure}) // everything was printed
	}
	if err != nil {
		return cli.WrapUsage(cmd.CommandPath(), err)
	}
	defer release()
	ctx, _, ignore := withSignals(cmd.Context())
	defer ignore()
	found := diagnosis.Diagnose(doctor.Examine(ctx, cfg))
	return f.showFindings(ctx, cmd, found)
}

// runPostgresDoctor examines PostgreSQL.
func runPostgresDoctor(cmd *cobra.Command, f *doctorFlags) error {
	session, _, err := f.postgres.session()
	if err == nil {
		err = f.check()
	}
	if cmd.Flags().Changed("ttl") && err == nil {
		session.Deadline = f.ttl
		if session.Validate() != nil {
			err = fmt.Errorf("--ttl %v: give from %v to %v in PostgreSQL; leave it out for %v", f.ttl, pgsession.MinDeadline,
				pgsession.MaxDeadline, pgsession.DefaultDeadline)
		}
	}
	if err != nil {
		return cli.WrapUsage(cmd.CommandPath(), err)
	}
	ctx, _, ignore := withSignals(cmd.Context())
	defer ignore()
	found := diagnosis.DiagnosePostgres(doctor.ExaminePostgres(ctx, doctor.PostgresConfig{Session: session,
		Timeout: f.timeout}))
	return f.showFindings(ctx, cmd, found)
}

// showFindings prints the findings. Its error has the exit code.
func (f *doctorFlags) showFindings(ctx context.Context, cmd *cobra.Command, found []diagnosis.Finding) error {
	if ctx.Err() != nil {
		return errors.New("interrupted; nothing is left behind")
	}
	if err := doctor.Print(cmd.OutOrStdout(), found, f.output == "json"); err != nil {
		return err
	}
	if diagnosis.Worst(found) == diagnosis.Problem {
		return &cli.ExitCodeError{Code: cli.ExitFailure} // everything was printed
	}
	return nil
}

func (f *doctorFlags) config(cmd *cobra.Command) (cfg doctor.Config, release func(), err error) {
	if err := checkTTL(f.ttl); err != nil {
		return cfg, nil, err
	}
	program, err := access.ParseProgram(f.program)
	if err != nil {
		return cfg, nil, fmt.Errorf("--for: %w", err)
	}
	nodes, err := f.nodes.readCertificates()
	if err != nil {
		return cfg, nil, err
	}
	trusted, err := readAuthorities("--http-ca", f.httpCA)
	if err != nil {
		return cfg, nil, err
	}
	etcd, release, err := f.operatorFlags.config(cmd)
	if err != nil {
		return cfg, nil, err
	}
	etcd.Logger = nil // findings replace its log
	cfg = doctor.Config{HTTP: trusted, Etcd: operator.Etcd(etcd), Keys: keysOf(etcd), TTL: f.ttl, Program: program,
		Timeout: f.timeout}
	for _, certs := range []*mtls.Certificates{f.etcd.certs, nodes} {
		if certs == nil {
			continue
		}
		for _, e := range certs.Expiries() {
			cfg.Certificates = append(cfg.Certificates, diagnosis.Certificate{Owner: e.File, NotBefore: e.NotBefore,
				NotAfter: e.NotAfter})
		}
	}
	if nodes != nil {
		cfg.Options = []grpc.DialOption{nodes.DialOption()}
	}
	return cfg, release, nil
}

// keysOf returns the keys of a validated configuration.
func keysOf(cfg cluster.Config) state.Keys {
	keys, err := state.NewKeys(cfg.EtcdPrefix)
	if err != nil {
		panic(fmt.Sprintf("goversed: a prefix that was validated is refused: %v", err))
	}
	return keys
}
