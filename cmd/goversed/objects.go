package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/daemon"
	"github.com/goverse/goverse/cmd/goversed/internal/operator"
	"github.com/goverse/goverse/node/mtls"
)

// answerTimeout limits the wait for one node's answer.
const answerTimeout = 2 * time.Second

func newObjects() *cobra.Command {
	var nodes nodeTLSFlags
	var cmd *cobra.Command
	cmd = newOperator(&cobra.Command{
		Use:   "objects [KEY]",
		Short: "Count the objects on each node, or show the owner of a key",
		Long: `Without KEY, show for each service and node how many objects are active, how many calls wait for
them, and how many calls have run. With KEY, show the node that owns it, and the state of the
objects with that key. The nodes and the owner are read from etcd. Then each node is asked at its
address, over TLS if --node-cert, --node-key and --node-ca are given. A node that does not answer
within 2s is listed as such, and the exit code is still 0.

A key that could be misread is shown in quotes. A KEY that begins with " is read as a quoted key, so
it can have any bytes: '"\x00\xff"'. Write -- before a KEY that begins with a dash.`,
		Example: `  goversed objects
  goversed objects alice
  goversed objects --node-cert me.pem --node-key me-key.pem --node-ca ca.pem
  goversed objects -o json | jq '[.nodes[].services[].active] | add'
  goversed objects alice -o json | jq -r .key.owner`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.WrapUsage(cmd.CommandPath(), fmt.Errorf("unexpected argument %q: one key at a time", args[1]))
			}
			return nil
		},
	}, 5*time.Second, func(f *operatorFlags) (operatorAction, error) {
		key := ""
		if args := cmd.Flags().Args(); len(args) == 1 {
			var err error
			if key, err = parseObjectKey(args[0]); err != nil {
				return nil, err
			}
		}
		opts, err := nodes.dialOptions()
		if err != nil {
			return nil, err
		}
		return showRead(f, func(ctx context.Context, o *operator.Operator) (operator.Objects, error) {
			return o.Objects(ctx, answerTimeout, key, opts...)
		}, operator.PrintObjects), nil
	})
	nodes.register(cmd.Flags())
	return cmd
}

// dialOptions reads the files and returns the options for calls of nodes, none without certificates.
func (f *nodeTLSFlags) dialOptions() ([]grpc.DialOption, error) {
	certs, err := f.readCertificates()
	if err != nil || certs == nil {
		return nil, err
	}
	return []grpc.DialOption{certs.DialOption()}, nil
}

// readCertificates reads the files once, because a command is short, and returns their content. It returns nil
// without files.
func (f *nodeTLSFlags) readCertificates() (*mtls.Certificates, error) {
	cfg := f.tlsConfig()
	if err := daemon.ValidateNodeTLS(cfg); err != nil || cfg.CertFile == "" {
		return nil, err
	}
	cfg.ClientOnly = true
	certs, err := mtls.New(cfg)
	if err != nil {
		return nil, daemon.NameFile(err, daemon.NodeTLSFlags)
	}
	certs.Close()
	return certs, nil
}

// parseObjectKey parses a key, plain or quoted as the command shows it.
func parseObjectKey(s string) (string, error) {
	key, err := parseWord("KEY", s, "goversed objects")
	if err == nil && (key == "" || len(key) > objects.MaxKey) {
		err = fmt.Errorf("KEY has %d bytes: give 1 to %d, or leave it out", len(key), objects.MaxKey)
	}
	return key, err
}
