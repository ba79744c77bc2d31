package mutants

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const smallSource = `package main // a small one

import "fmt"

const limit = 3

func add(a, b int) int { return a + b }

func grow(n *int) {
	if *n < limit {
		*n += 1
	}
}

func main() {
	n := add(1, 1)
	grow(&n)
	fmt.Println(n)
	panic("in line 19")
}
`

const smallTest = `package main

import "testing"

func TestSchedules(t *testing.T) {
	if n := add(2, 3); n != 5 {
		t.Errorf("seed 7: %d", n)
	}
}

func TestGrow(t *testing.T) {
	n := 3
	if grow(&n); n != 3 {
		t.Error(n)
	}
}
`

// smallMutants change the same functions.
var smallMutants = []Mutant{
	{Name: "first", Edits: []Edit{{"main.go", "a + b", "a"}}},
	{Name: "minus", Edits: []Edit{{"main.go", "a + b", "a - b"}}},
	{Name: "ten", Test: "TestGrow", Edits: []Edit{{"main.go", "*n += 1", "*n += 10"}}},
	{Name: "boundless", Test: "TestGrow", Edits: []Edit{{"main.go", "*n < limit", "true"}}},
	{Name: "four", Edits: []Edit{{"main.go", "add(1, 1)", "add(2, 1)"}, {"main.go", "	grow(&n)", "	n++"}}},
}

// writeProgram writes a module of one program, and returns its directory.
func writeProgram(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module " + modulePath + "\n\ngo 1.26\n", "main.go": smallSource,
		"main_test.go": smallTest} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func TestEditsThatDoNotFit(t *testing.T) {
	for want, edits := range map[string][]Edit{
		`mutant m does not fit: main.go has 0 times, not once: "a - b"`:           {{"main.go", "a - b", "a"}},
		`mutant m does not fit: main.go has 2 times, not once: "limit"`:           {{"main.go", "limit", "4"}},
		`mutant m does not fit: main.go has it in the body of no function: "= 3"`: {{"main.go", "= 3", "= 4"}},
		`mutant m does not fit: main.go: another edit changes a part of it: "+ b"`: {{"main.go", "a + b", "a"},
			{"main.go", "+ b", "+ a"}},
		`mutant m: an edit changes nothing`:       {{"main.go", "a + b", "a + b"}},
		`mutants change a file that is not there`: {{"there.go", "a + b", "a"}},
	} {
		t.Run(want, func(t *testing.T) {
			_, err := WriteOverlay(writeProgram(t), t.TempDir(), []Mutant{{Name: "m", Edits: edits}})
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
	_, err := WriteOverlay(writeProgram(t), t.TempDir(), append(smallMutants, smallMutants[0]))
	require.EqualError(t, err, "mutant first is there twice")
}

// TestOneMutantIsOn checks that only one mutant of a build is active at a time, and that line numbers are the
// source's.
func TestOneMutantIsOn(t *testing.T) {
	root, dir := writeProgram(t), t.TempDir()
	overlay, err := WriteOverlay(root, dir, smallMutants)
	require.NoError(t, err)
	cmd := exec.Command("go", "build", "-trimpath=false", "-overlay", overlay, "-o", filepath.Join(dir, "program"), ".")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for name, want := range map[string]string{"": "3\n", "first": "2\n", "minus": "1\n", "ten": "12\n",
		"boundless": "3\n", "four": "4\n"} {
		cmd := exec.Command(filepath.Join(dir, "program"))
		cmd.Env = append(os.Environ(), Variable+"="+name)
		out, err := cmd.CombinedOutput()
		require.Error(t, err, "it panics in the end")
		require.Regexp(t, "^"+want, string(out), name)
		require.Contains(t, string(out), filepath.Join(root, "main.go")+":19", name)
	}
	cmd = exec.Command(filepath.Join(dir, "program"))
	cmd.Env = append(os.Environ(), Variable+"=other")
	out, err = cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "GOVERSE_MUTANT is not the name of a mutant: other")
}

// TestFind checks that a mutant is found by the seed of a failed schedule, or by its own test, and that
// otherwise runMutant returns an error.
func TestFind(t *testing.T) {
	root := writeProgram(t)
	tests, err := buildTests(root, t.TempDir(), ".", smallMutants)
	require.NoError(t, err)
	for _, m := range smallMutants {
		by, failure, err := runMutant(t.Context(), tests, root, m)
		switch m.Name {
		case "first":
			require.NoError(t, err)
			require.Equal(t, []string{"seed 7", "2"}, []string{by, failure})
		case "boundless":
			require.NoError(t, err)
			require.Equal(t, "TestGrow", by)
		case "ten":
			require.ErrorContains(t, err, "mutant ten () is not found by TestGrow")
		case "four":
			require.ErrorContains(t, err, "mutant four () is not found by TestSchedules")
		}
	}
}
