package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/access"
	"github.com/goverse/goverse/internal/doctor/diagnosis"
	"github.com/goverse/goverse/internal/reach"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/testkit/etcdtest"
	"github.com/goverse/goverse/internal/testkit/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.RunMore()
	leaktest.Main(m)
}

const patience = 20 * time.Second

// keys are those of the clusters under test.
func keys(t *testing.T) state.Keys {
	t.Helper()
	return prefixed(t, clustertest.Prefix)
}

// prefixed are those under another prefix.
func prefixed(t *testing.T, prefix string) state.Keys {
	t.Helper()
	k, err := state.NewKeys(prefix)
	require.NoError(t, err)
	return k
}

// look is what the doctor finds at these endpoints, with a TTL of 10 s unless alter changes that.
func look(t *testing.T, endpoints string, alter ...func(*Config)) []diagnosis.Finding {
	t.Helper()
	cfg := Config{Etcd: reach.Config{Address: endpoints, Words: reach.Flags}, Keys: keys(t), TTL: 10 * time.Second,
		Program: access.Node, Timeout: patience}
	for _, change := range alter {
		change(&cfg)
	}
	return diagnosis.Diagnose(Examine(etcdtest.Context(t), cfg))
}

// user has the doctor log in.
func user(name, password string) func(*Config) {
	return func(c *Config) { c.Etcd.Username, c.Etcd.Password = name, password }
}

func ttl(d time.Duration) func(*Config) { return func(c *Config) { c.TTL = d } }

// text is the findings as people see them.
func text(t *testing.T, all []diagnosis.Finding) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, Print(&out, all, false))
	return out.String()
}

// finds reports whether there is a finding of that check and severity that says all of it, in what is so or in its
// remedy.
func finds(all []diagnosis.Finding, check string, severity diagnosis.Severity, says ...string) bool {
	for _, f := range all {
		has := f.Check == check && f.Severity == severity
		for _, s := range says {
			has = has && (strings.Contains(f.Says, s) || strings.Contains(f.Remedy, s))
		}
		if has {
			return f.Remedy != "" || severity <= diagnosis.Note
		}
	}
	return false
}

// requireFound fails unless there is such a finding, with a remedy.
func requireFound(t *testing.T, all []diagnosis.Finding, check string, severity diagnosis.Severity, says ...string) {
	t.Helper()
	require.True(t, finds(all, check, severity, says...), "no %v of %s that says %q in:\n%s", severity, check, says,
		text(t, all))
}

// requireNone fails if a check found more than a note.
func requireNone(t *testing.T, all []diagnosis.Finding, checks ...string) {
	t.Helper()
	for _, f := range all {
		for _, check := range checks {
			require.False(t, f.Check == check && f.Severity > diagnosis.Note, "%s:\n%s", check, text(t, all))
		}
	}
}
