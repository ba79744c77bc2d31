package mutants

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// failedSeed matches the line in which TestSchedules reports a schedule that broke a promise.
var failedSeed = regexp.MustCompile(`\bseed (\d+): (.+)`)

// RequireFound fails the test unless each mutant that the package has to find is found: by one of a number of schedules
// of the package's TestSchedules, or by the test that the mutant names. suite is the prefix of the flags of
// TestSchedules; "" means that the package has no schedules. RequireFound builds the package once, with all mutants,
// and runs the tests once for each mutant, up to the first failed schedule.
func RequireFound(t *testing.T, pkg, suite string, schedules int) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the tests anew with the mutants in them")
	}
	mutants := mutantsFor(pkg)
	require.NotEmpty(t, mutants, "no mutant names package %s", pkg)
	root, err := ModuleRoot()
	require.NoError(t, err)
	tests, err := buildTests(root, t.TempDir(), pkg, All())
	require.NoError(t, err)
	for _, m := range mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			by, failure, err := runMutant(t.Context(), tests, filepath.Join(root, pkg), m,
				schedulesArgs(m, suite, schedules)...)
			require.NoError(t, err)
			t.Logf("%s: found by %s, after %v: %s", m.Name, by, time.Since(began).Round(time.Millisecond), failure)
		})
	}
}

// schedulesArgs returns the arguments of TestSchedules with a mutant.
func schedulesArgs(m Mutant, suite string, schedules int) []string {
	if suite == "" {
		return nil
	}
	return []string{fmt.Sprintf("-%s.schedules=%d", suite, schedules), fmt.Sprintf("-%s.seed=%d", suite, max(1, m.Seed))}
}

// buildTests builds the tests of a package with the mutants in all packages of this module.
func buildTests(root, dir, pkg string, mutants []Mutant) (tests string, err error) {
	overlay, err := WriteOverlay(root, dir, mutants)
	if err != nil {
		return "", err
	}
	tests = filepath.Join(dir, "mutants.test")
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", tests, "./"+pkg)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s does not compile with the mutants: %w\n%s", pkg, err, out)
	}
	return tests, nil
}

// runMutant runs the tests with a mutant, and returns the test or seed that found it, and the failure.
func runMutant(ctx context.Context, tests, dir string, m Mutant, args ...string) (by, failure string, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	test := m.Test
	if test == "" {
		test = "TestSchedules"
	}
	cmd := exec.CommandContext(ctx, tests, append([]string{"-test.v", "-test.timeout=5m", "-test.run=^" + test + "$"},
		args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), Variable+"="+m.Name)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", "", err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return "", "", err
	}
	var all strings.Builder
	for lines := bufio.NewReader(out); err == nil; {
		var line string
		line, err = lines.ReadString('\n')
		if all.Len() < maxReported {
			all.WriteString(line)
		}
		schedule := failedSeed.FindStringSubmatch(line)
		switch {
		case by != "":
		case m.Test == "" && schedule != nil:
			by, failure = "seed "+schedule[1], schedule[2]
			stop()
		case m.Test != "" && strings.HasPrefix(line, "--- FAIL: "+m.Test+" "):
			by, failure = m.Test, "it fails"
		}
	}
	if err := cmd.Wait(); by == "" {
		return "", "", fmt.Errorf("mutant %s (%s) is not found by %s (%v):\n%s", m.Name, m.What, test, err, all.String())
	}
	return by, failure, nil
}

// maxReported limits the reported output of tests that find nothing.
const maxReported = 8 << 10
