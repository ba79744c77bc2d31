package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
)

// postgresFlags holds the flags for the connection to PostgreSQL.
type postgresFlags struct {
	url, schema string
}

// register adds the flags to fs. Instead names what PostgreSQL is used for.
func (p *postgresFlags) register(fs *pflag.FlagSet, instead string) {
	p.registerURL(fs, instead)
	fs.StringVar(&p.schema, "schema", pgsession.DefaultSchema, "with --postgres: `schema` of the tables; the same for "+
		"all processes that exclude each other")
}

func (p *postgresFlags) registerURL(fs *pflag.FlagSet, instead string) {
	fs.StringVar(&p.url, "postgres", "", "`URL` of the PostgreSQL "+instead+", instead of etcd; prefer the variable if "+
		"it has a password")
}

// errBothStores is the error of a command line that leaves open which store is used.
var errBothStores = errors.New("etcd and PostgreSQL are both set, in GOVERSE_ETCD, GOVERSE_POSTGRES or the file: " +
	"give --etcd or --postgres on the command line, or unset one of them")

// used reports whether PostgreSQL is used and not etcd: --postgres is given, and --etcd is not given with more weight,
// on the command line. It fails if both are given off the command line, if the command line has flags of both, or if it
// has flags of PostgreSQL without --postgres.
// alsoEtcd lists flags that concern etcd besides those of the connection.
func (p *postgresFlags) used(cmd *cobra.Command, alsoEtcd ...string) (bool, error) {
	given := func(name string) bool { return cli.OnCommandLine(cmd.Flags(), name) }
	if p.url == "" || given("etcd") && !given("postgres") {
		for _, name := range []string{"schema", "table", "node-election"} {
			if given(name) {
				return false, fmt.Errorf("--%s concerns PostgreSQL: give --postgres, too", name)
			}
		}
		return false, nil
	}
	// The two stores exclude nothing from each other, so none is guessed. The checkpoints of a cluster in etcd may be in
	// PostgreSQL.
	if !given("postgres") && cmd.Flags().Changed("etcd") && cmd.Flags().Lookup("table") == nil {
		return false, errBothStores
	}
	var conflict error
	etcdOnly := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(etcdFlags).register(etcdOnly, "", "")
	etcdOnly.VisitAll(func(f *pflag.Flag) { alsoEtcd = append(alsoEtcd, f.Name) })
	for _, name := range alsoEtcd {
		if conflict == nil && given(name) {
			conflict = fmt.Errorf("--%s concerns etcd, and --postgres is given: leave one of them out", name)
		}
	}
	return true, conflict
}

// session returns the configuration of a session. It reads the files that the URL names. An error about a file does not
// concern the command line: the file may be there a moment later.
func (p *postgresFlags) session() (cfg pgsession.Config, unreadable bool, err error) {
	cfg = pgsession.Config{URL: p.url, Schema: p.schema}
	if err := cfg.Validate(); err != nil {
		_, unreadable = errors.AsType[*fs.PathError](err)
		return cfg, unreadable, fmt.Errorf("--postgres: %w", err) // pgx leaves the password out
	}
	return cfg, false, nil
}

// withoutPassword returns the URL for a process that goversed starts, "" if it has a password.
func (p *postgresFlags) withoutPassword() string {
	u, err := url.Parse(p.url)
	switch {
	case err != nil || u.Scheme == "": // keywords and values
		if strings.Contains(p.url, "password") {
			return ""
		}
	case strings.Contains(u.RawQuery, "password"): // or sslpassword
		return ""
	default:
		if _, has := u.User.Password(); has {
			return ""
		}
	}
	return p.url
}
