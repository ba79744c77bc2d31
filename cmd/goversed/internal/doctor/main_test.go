package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/cmd/goversed/internal/doctor/diagnosis"
	"github.com/goverse/goverse/internal/etcd/access"
	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	leaktest.Main(m)
}

const patience = 20 * time.Second

// testKeys returns the keys of the cluster under test.
func testKeys(t *testing.T) state.Keys {
	t.Helper()
	return keysWithPrefix(t, clustertest.Prefix)
}

// keysWithPrefix returns the keys of a cluster under another prefix.
func keysWithPrefix(t *testing.T, prefix string) state.Keys {
	t.Helper()
	k, err := state.NewKeys(prefix)
	require.NoError(t, err)
	return k
}

// examination holds the findings, and can repeat the examination, because etcd may take too long to answer on a busy
// machine.
type examination struct {
	findings []diagnosis.Finding
	repeat   func() []diagnosis.Finding
}

// examineEtcd returns the findings for these endpoints, with a TTL of 10 s unless alter changes that.
func examineEtcd(t *testing.T, endpoints string, alter ...func(*Config)) *examination {
	t.Helper()
	cfg := Config{Etcd: connect.Config{Address: endpoints, SettingNames: connect.FlagNames}, Keys: testKeys(t),
		TTL:     10 * time.Second,
		Program: access.Node, Timeout: patience}
	for _, change := range alter {
		change(&cfg)
	}
	s := &examination{repeat: func() []diagnosis.Finding { return diagnosis.Diagnose(Examine(etcdtest.Context(t), cfg)) }}
	s.findings = s.repeat()
	return s
}

// awaitFindings repeats the examination until enough returns true, and fails if it never does.
func (s *examination) awaitFindings(t *testing.T, enough func() bool, format string, args ...any) {
	t.Helper()
	for deadline := time.Now().Add(patience); !enough(); s.findings = s.repeat() {
		if time.Now().After(deadline) {
			t.Fatalf("%s in:\n%s", fmt.Sprintf(format, args...), s)
		}
	}
}

// String returns the findings as text.
func (s *examination) String() string {
	var out strings.Builder
	_ = Print(&out, s.findings, false) // it cannot fail
	return out.String()
}

// withUser makes the doctor log in.
func withUser(name, password string) func(*Config) {
	return func(c *Config) { c.Etcd.Username, c.Etcd.Password = name, password }
}

func withTTL(d time.Duration) func(*Config) { return func(c *Config) { c.TTL = d } }

// hasFinding reports whether a finding of that check and severity contains all of the texts, in its description or
// in its remedy, and has a remedy.
func (s *examination) hasFinding(check string, severity diagnosis.Severity, says ...string) bool {
	for _, f := range s.findings {
		has := f.Check == check && f.Severity == severity && (f.Remedy != "" || severity <= diagnosis.Note)
		for _, one := range says {
			has = has && (strings.Contains(f.Description, one) || strings.Contains(f.Remedy, one))
		}
		if has {
			return true
		}
	}
	return false
}

// requireFound fails unless there is such a finding, with a remedy.
func requireFound(t *testing.T, s *examination, check string, severity diagnosis.Severity, says ...string) {
	t.Helper()
	s.awaitFindings(t, func() bool { return s.hasFinding(check, severity, says...) }, "no %v of %s that says %q",
		severity, check, says)
}

// requireAtMost fails if a finding exceeds that severity. With checks it considers only findings of these.
func requireAtMost(t *testing.T, s *examination, severity diagnosis.Severity, checks ...string) {
	t.Helper()
	s.awaitFindings(t, func() bool {
		for _, f := range s.findings {
			if f.Severity > severity && (len(checks) == 0 || slices.Contains(checks, f.Check)) {
				return false
			}
		}
		return true
	}, "worse than %v", severity)
}
