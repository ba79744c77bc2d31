package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/internal/state/format"
	"github.com/goverse/goverse/internal/test/logtest"
)

// Every mistake yields one line that names the remedy, and exit code 2.
func TestBadCommandLines(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"--foo":    "unknown flag: --foo; see goversed --help",
		"foo":      `unknown command "foo"`,
		"stats":    "did you mean status?",
		"help foo": `unknown command "foo"`,
		"help status x": `unexpected argument "x": ` +
			`goversed status has no verbs; see goversed status --help`,
		"help effects foo": `unexpected argument "foo": ` +
			`the verbs here are list, resolve, show; see goversed effects --help`,
		"transfer a:1": `unexpected argument "a:1": ` +
			`write --to a:1; see goversed transfer --help`,
		"transfer --to a:1 b:1":                 `unexpected argument "b:1": everything is given as --flag value`,
		"effects --limit many":                  "--limit many: write a whole number",
		"effects --unknown=maybe":               "--unknown=maybe: write true or false",
		"node --foo":                            "unknown flag: --foo; see goversed node --help",
		"node stray":                            `unexpected argument "stray"`,
		"node --ttl 0":                          "--ttl 0s: give whole seconds",
		"node --ttl -5s":                        "--ttl -5s: give whole seconds",
		"node --ttl 1500ms":                     "--ttl 1.5s: give whole seconds",
		"node --ttl 500ms":                      "from 1s to 24h",
		"node --ttl 10":                         "--ttl 10: write it like 10s",
		"node --ttl abc":                        "--ttl abc: write it like 10s",
		"status --timeout 5":                    "--timeout 5: write it like 10s",
		"node --prefix /goverse/":               "--prefix /goverse/ must not end with a slash: use /goverse;",
		"status --prefix /":                     "must not end with a slash: use something like /goverse",
		"node --etcd-listen=":                   "--etcd-listen is empty",
		"node --ttl 48h":                        "--ttl 48h0m0s: give whole seconds from 1s to 24h",
		"node --listen nowhere":                 "--listen nowhere: write host:port, like 127.0.0.1:47001",
		"node --listen=":                        "--listen is empty",
		"node --listen 0.0.0.0:47001":           "give --advertise",
		"node --advertise :47001":               "--advertise :47001: write the host:port under which",
		"node --http nowhere":                   "--http nowhere: write host:port, like",
		"node --http 127.0.0.1:99999":           "--http 127.0.0.1:99999: write host:port",
		"node --prefix goverse":                 "--prefix: bad etcd prefix",
		"node --prefix /a/../b":                 "--prefix: bad etcd prefix",
		"node --prefix=":                        "--prefix is empty",
		"node --etcd localhost":                 "--etcd localhost: write host:port, like 127.0.0.1:2379",
		"node --etcd a:1 --data-dir d":          "--data-dir configures the embedded etcd",
		"node --etcd a:1 --etcd-listen b:1":     "--etcd-listen configures the embedded etcd",
		"node --etcd-user u":                    "--etcd-user is given without a password",
		"node --data-dir=":                      "--data-dir is empty",
		"node --etcd-listen nowhere":            "--etcd-listen nowhere: write host:port, like 127.0.0.1:2379;",
		"node --crash-detection maybe":          `--crash-detection "maybe": give on or off`,
		"node --crash-watchers 0":               "--crash-watchers 0: give a number from 1 up",
		"node --crash-grace-period 0":           "--crash-grace-period 0s: give at least 10ms",
		"node --crash-grace-period 1s --ttl 2s": "--crash-grace-period 1s: give at most a third of --ttl (2s)",
		"node --silence-timeout 500ms":          "--silence-timeout 500ms: give at least 1s, or 0",
		"node --silence-timeout 5s --ttl 5s":    "--silence-timeout 5s: give less than --ttl (5s)",
		"node --crash-confirmations 0":          "--crash-confirmations 0: give a number from 1 up",
		"node --sharding maybe":                 `--sharding "maybe": give on or off`,
		"node --shards 0":                       "--shards 0: give a number from 1 to 65536",
		"node --shards 2000000":                 "--shards 2000000: give a number from 1 to",
		"node --shard-window 0":                 "--shard-window 0s: give more than 0",
		"node --shard-drain-timeout -1s":        "--shard-drain-timeout -1s: give more than 0",
		"node --shard-min-members 0":            "--shard-min-members 0: give a number from 1 up",
		"node --shard-moves-per-minute -1":      "--shard-moves-per-minute -1: give a number from 1 up",
		"node --shard-exclude novalue":          "key=value",
		"shards plan --shard-window -1s":        "--shard-window -1s: give more than 0",
		"shards plan --without=":                "--without is empty: give the address of a node",
		"shards plan --without a:1,,":           `--without "": give the address of a node`,
		"shards plan --with a:1=0":              `--with "a:1=0": write HOST:PORT or HOST:PORT=WEIGHT`,
		"shards plan --with =2":                 `--with "=2": write HOST:PORT or HOST:PORT=WEIGHT`,
		"shards plan --with a":                  `--with "a": write HOST:PORT or HOST:PORT=WEIGHT`,
		"elections lst":                         `unexpected argument "lst": the verbs here are list, resign, tra`,
		"locks nightly":                         `unexpected argument "nightly": the verbs here are list`,
		"locks --limit -1":                      "--limit -1: give a number from 1 up, or 0 for all",
		"shards --shard-window 1s": "unknown flag: --shard-window: it is a flag of goversed node and " +
			"goversed shards plan; see goversed shards --help",
		"status --ouput json":         "unknown flag: --ouput: did you mean --output?; see goversed status --help",
		"node --crash-grce-period 1s": "unknown flag: --crash-grce-period: did you mean --crash-grace-period?",
		"elections --conf x":          "unknown flag: --conf: did you mean --config?",
		"events --name-prefix a":      "unknown flag: --name-prefix: it is a flag of other commands, such as goversed ef",

		"objects alice bob":                      `unexpected argument "bob": one key at a time`,
		`objects "alice`:                         `KEY "alice: a word that begins with a quotation mark must be quoted`,
		`objects ""`:                             "KEY has 0 bytes: give 1 to 1024, or leave it out",
		"objects --timeout 0":                    "--timeout 0s: give more than 0",
		"doctor --timeout 0":                     "--timeout 0s: give more than 0",
		"doctor --ttl 1500ms":                    "--ttl 1.5s: give whole seconds",
		"doctor --for x":                         `unknown program "x": give node, election, exec, lock or`,
		"doctor --node-cert c":                   "--node-cert, --node-key and --node-ca belong together",
		"doctor --etcd nowhere":                  "--etcd nowhere: write host:port",
		"doctor -o yaml":                         `--output "yaml": give text or json`,
		"doctor stray":                           `unexpected argument "stray"`,
		"rbac --for x":                           `--for: unknown program "x"`,
		"rbac --prefix x":                        "--prefix: bad etcd prefix",
		"rbac --user=":                           "--user is empty: give a name, or none",
		"rbac --user u:p":                        "--user u:p: give a name without a colon",
		"rbac --role=-r":                         `--role "-r": give a name of one line`,
		"help objects x":                         `unexpected argument "x": goversed objects has no verbs`,
		"shards stray":                           `unexpected argument "stray"`,
		"shards plan stray":                      `unexpected argument "stray"`,
		"node --fallback maybe":                  `--fallback "maybe": give name or none`,
		"node --label novalue":                   "key=value",
		"node --weight 0":                        "--weight 0",
		"node --log-level loud":                  `--log-level "loud"`,
		"node --start-timeout -1s":               "must not be negative",
		"node --etcd a:1 --etcd-password p":      "without --etcd-user",
		"node --etcd a:1 --etcd-cert c":          "give both",
		"node --etcd http://a:1 --etcd-cacert c": "write https://",
		"node --etcd a:1 --etcd-password-file /etc/secret": "--etcd-password-file is given without --etcd-user",
		"status --output yaml":                             `--output "yaml"`,
		"status --timeout 0":                               "--timeout 0s: give more than 0",
		"leader --etcd=":                                   "--etcd is empty",
		"nodes --prefix x":                                 "--prefix: bad etcd prefix",
		"watch stray":                                      "unexpected argument",
		"node --etcd ftp://a:1":                            "http:// and https:// are understood",
		"transfer":                                         "--to is missing",
		"version stray":                                    "unexpected argument",
		"probe":                                            "URL is missing: give the address of a page",
		"probe 127.0.0.1:48001":                            `URL "127.0.0.1:48001": write it like http://`,
		"probe http://a:1 b":                               `unexpected argument "b": one page at a time`,
		"probe --timeout 0 http://a:1":                     "--timeout 0s: give more than 0",
		"probe --cacert /nonexistent http://a:1":           "--cacert: name a file",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			r := runGoversed(t, nil, strings.Fields(line)...)
			requireOneLine(t, r, cli.ExitUsage, says)
			// Messages contain flags, but no packages or fields, which an operator does not know.
			require.NotRegexp(t, `node: |embedetcd|[A-Z][a-z]+[A-Z]`, r.stderr)
		})
	}
}

// What a start may find otherwise a second later is a failure, not a wrong command line: systemd starts the node again.
func TestNodeWithoutWhatItNeeds(t *testing.T) {
	t.Parallel()
	unknown := strings.Repeat("x", 64) + ":0" // a name that is too long for any name server to be asked
	for flags, says := range map[string]string{
		"--http none --etcd-cacert /none":                      "--etcd-cacert /none: name a file",
		"--http none --etcd-cert /none --etcd-key /no":         "--etcd-cert /none: name a file",
		"--http none --etcd-user u --etcd-password-file /none": "--etcd-password-file: name a file",
		"--http " + unknown:                                    "--http " + unknown + ": give an address and a port",
	} {
		line := "node --etcd a:1 --log-level off --listen 127.0.0.1:0 " + flags
		requireOneLine(t, runGoversed(t, nil, strings.Fields(line)...), cli.ExitFailure, says)
	}
}

func TestBadCertificateFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, []byte("no certificate"), 0o600))
	requireOneLine(t, runGoversed(t, nil, "status", "--etcd-cacert", file), cli.ExitUsage, "holds no PEM certificate")
}

func TestBadVariables(t *testing.T) {
	t.Parallel()
	requireOneLine(t, runGoversed(t, map[string]string{"GOVERSE_TTL": "soon"}, "node"), cli.ExitUsage,
		"GOVERSE_TTL=soon: write it like 10s", "see goversed node --help")
	requireOneLine(t, runGoversed(t, map[string]string{"GOVERSE_TTL": "1500ms"}, "node"), cli.ExitUsage, "--ttl 1.5s")
	requireOneLine(t, runGoversed(t, map[string]string{"GOVERSE_TTL": "2s"}, "node", "--ttl", "0"), cli.ExitUsage,
		"--ttl 0s")
	requireOneLine(t, runGoversed(t, map[string]string{"GOVERSE_OUTPUT": "yaml"}, "status"), cli.ExitUsage, `"yaml"`)
}

func TestHelpTeaches(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"--help"}, {"help"}} { // with nil cobra would use os.Args
		r := runGoversed(t, nil, args...)
		require.Equal(t, cli.ExitOK, r.code)
		require.Empty(t, r.stderr)
		for _, says := range []string{"Examples:", "goversed node --etcd", "environment variable", "transfer"} {
			require.Contains(t, r.stdout, says)
		}
		require.Contains(t, r.stdout, "completion")
	}
	require.Contains(t, runGoversed(t, nil, "completion", "bash").stdout, "goversed", "it works")
	for _, args := range [][]string{{"node", "--help"}, {"help", "node"}} {
		r := runGoversed(t, map[string]string{"GOVERSE_ETCD_PASSWORD": "secret"}, args...)
		require.Equal(t, cli.ExitOK, r.code)
		for _, says := range []string{"Examples:", "[GOVERSE_ETCD_LISTEN]", "SIGTERM", `(default "127.0.0.1:47001")`} {
			require.Contains(t, r.stdout, says)
		}
		require.NotContains(t, r.stdout, "secret")
	}
}

// Every command's help groups its flags. What a command has alone comes first.
func TestHelpGroupsFlags(t *testing.T) {
	t.Parallel()
	node := runGoversed(t, nil, "node", "--help").stdout
	last := 0
	for _, title := range []string{"Node:", "Time limits:", "Connection to etcd:", "TLS:", "Embedded etcd:",
		"Election and crash detection:", "Shards:", "Admin calls over HTTP:", "Output:", "General:"} {
		at := strings.Index(node, "\n\n"+title+"\n")
		require.Greater(t, at, last, title)
		last = at
	}
	require.NotContains(t, node, "\nFlags:", "every flag of a node has a group")
	require.Regexp(t, `(?s)\nFlags:\n      --name-prefix text .*\nConnection to etcd:\n      --etcd host:port`,
		runGoversed(t, nil, "elections", "--help").stdout)
	require.NotContains(t, runGoversed(t, nil, "etcd", "members", "--help").stdout, "--prefix", "it is hidden")
	help := runGoversed(t, nil, "--help").stdout
	require.Regexp(t, `(?s)\nRun:\n  dev .*\nShow:\n  effects .*\nChange:\n  drain .*\nSet up and check:\n`, help)
	require.NotContains(t, help, "Available Commands", "every command has a group")
	known := map[string]bool{}
	for _, cmd := range commandsBelow(newRoot(envLookup(nil)), "") {
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		cmd.PersistentFlags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	}
	grouped := map[string]bool{}
	for _, g := range flagGroups() {
		for _, name := range g.Names {
			require.False(t, grouped[name], "%s is in two groups", name)
			grouped[name] = true
			require.True(t, known[name] || name == "help" || name == "version", "no command has --%s", name)
		}
	}
}

// All commands that need an etcd look for it at the same address.
func TestOneDefaultForEtcd(t *testing.T) {
	t.Parallel()
	for path, cmd := range commandsBelow(newRoot(envLookup(nil)), "") {
		if f := cmd.LocalFlags().Lookup("etcd"); f != nil && path != "node" && path != "guard" {
			require.Equal(t, defaultEtcd, f.DefValue, path)
		}
	}
}

// The command line wins over the environment, and that over the file.
func TestConfigFile(t *testing.T) {
	t.Parallel()
	write := func(text string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "goversed.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	file := write("# flags of several commands\netcd: 127.0.0.1:1\ntimeout: 300ms\nlisten: 127.0.0.1:47009\n" +
		"output: json\n")
	for _, c := range []struct {
		env  map[string]string
		args string
		says string
	}{
		{nil, "status --config " + file, "etcd cannot be reached at 127.0.0.1:1:"},
		{map[string]string{"GOVERSE_CONFIG": file}, "status", "etcd cannot be reached at 127.0.0.1:1:"},
		{map[string]string{"GOVERSE_ETCD": "127.0.0.1:2"}, "status --config " + file,
			"etcd cannot be reached at 127.0.0.1:2:"},
		{map[string]string{"GOVERSE_ETCD": "127.0.0.1:2"}, "status --etcd 127.0.0.1:3 --config " + file,
			"etcd cannot be reached at 127.0.0.1:3:"},
		{nil, "status --config /none/x", "--config: name a file that this user may read"},
	} {
		requireOneLine(t, runGoversed(t, c.env, strings.Fields(c.args)...), cli.ExitFailure, c.says)
	}
	for text, says := range map[string]string{
		"etcd: a:1\n\nlisten-on: b":     ":3: unknown key listen-on; see goversed status --help",
		"outptu: json":                  ":1: unknown key outptu: did you mean output?; see goversed status --help",
		"config: other.yaml":            ":1: unknown key config",
		"timeout: soon":                 ":1: timeout: soon: write it like 10s",
		"timeout: [5s]":                 ":1: timeout: write a single value, and no list or mapping",
		"etcd: a:1\netcd: b:1":          ":2: etcd is also in line 1: take one of them out",
		"- etcd":                        ":1: write flag: value, a line each, like etcd: 127.0.0.1:2379",
		"etcd: [":                       "write flag: value, a line each",
		"output: yaml\n":                `--output "yaml": give text or json`,
		"label: {zone: a}\ntimeout: 0s": "--timeout 0s: give more than 0",
	} {
		r := runGoversed(t, nil, "status", "--config", write(text))
		requireOneLine(t, r, cli.ExitUsage, says)
	}
	// The values of a node, as it takes them.
	root := newRoot(envLookup(nil))
	node, _, err := root.Find([]string{"node"})
	require.NoError(t, err)
	file = write("label: {zone: a, rack: \"1,2\"}\nshard-exclude: role=x\nadmin-client: [ops, 'a,b']\n" +
		"observer: true\nweight: 3\nttl: 5s\nadvertise:\n")
	require.NoError(t, node.ParseFlags([]string{"--config", file}))
	require.NoError(t, cli.ApplyFile(node))
	labels, err := node.Flags().GetStringToString("label")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"zone": "a", "rack": "1,2"}, labels)
	clients, err := node.Flags().GetStringSlice("admin-client")
	require.NoError(t, err)
	require.Equal(t, []string{"ops", "a,b"}, clients)
	for name, want := range map[string]string{"observer": "true", "weight": "3", "ttl": "5s", "advertise": "",
		"shard-exclude": "[role=x]"} {
		require.Equal(t, want, node.Flags().Lookup(name).Value.String(), name)
		require.Equal(t, want != "", node.Flags().Changed(name), "what is given counts as given")
	}
}

// Every flag of every command can be given as a variable, and its help shows that.
func TestEveryFlagShowsItsVariable(t *testing.T) {
	t.Parallel()
	for _, cmd := range newRoot(envLookup(nil)).Commands() {
		require.NotEmpty(t, cmd.Short, cmd.Name())
		usage := cmd.UsageString()
		for _, name := range []string{"etcd", "prefix", "ttl", "listen", "output", "to", "nodes"} {
			if cmd.Flags().Lookup(name) != nil {
				require.Contains(t, usage, "["+cli.EnvName(name)+"]", cmd.Name())
			}
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"version", "--version"} {
		r := runGoversed(t, nil, arg)
		require.Equal(t, cli.ExitOK, r.code)
		require.Regexp(t, `^goversed \S+ go\S.* \S+/\S+\n$`, r.stdout)
	}
	require.Equal(t, runGoversed(t, nil, "version"), runGoversed(t, nil, "--version"))
	var v versionInfo
	require.NoError(t, json.Unmarshal([]byte(runGoversed(t, nil, "version", "-o", "json").stdout), &v))
	require.Equal(t, buildVersion(), v)
	require.Equal(t, format.Release(), v.Version)
	v.addRevision([]debug.BuildSetting{{Key: "vcs.revision", Value: "c0ffee"}, {Key: "vcs.modified", Value: "true"}})
	require.Equal(t, "c0ffee", v.Revision)
	require.True(t, v.Modified)
	requireOneLine(t, runGoversed(t, nil, "version", "-o", "xml"), cli.ExitUsage, "give text or json")
}

// A misspelled variable would have no effect, so it causes a warning.
func TestUnknownVariablesWarn(t *testing.T) {
	t.Parallel()
	names := variableNames([]string{"GOVERSE_TLL=5s", "GOVERSE_ETCD=a:1", "GOVERSE_TOKEN=1", "HOME=/",
		"GOVERSE_COLOUR=x=y"})
	for _, args := range [][]string{{"version"}, {"guard"}} {
		var stdout, stderr logtest.Buffer
		runCommandLine(t.Context(), args, envLookup(nil), &stdout, &stderr, names...)
		says := "goversed: warning: no command has a flag for the environment variables GOVERSE_TLL (GOVERSE_TTL?), " +
			"GOVERSE_COLOUR: correct them, or take them out\n"
		require.Equal(t, args[0] == "version", strings.Contains(stderr.String(), says), "%s: %s", args, stderr.String())
	}
}
