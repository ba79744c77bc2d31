package mutants

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMutantsFitTheSource checks that every edit fits the present source, and that the result compiles.
func TestMutantsFitTheSource(t *testing.T) {
	root, err := ModuleRoot()
	require.NoError(t, err)
	overlay, err := WriteOverlay(root, t.TempDir(), All())
	require.NoError(t, err)
	args := []string{"build", "-overlay", overlay}
	for _, file := range editedFiles(All()) {
		args = append(args, "./"+path.Dir(file))
	}
	cmd := exec.Command("go", slices.Compact(args)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestMutantsAreLookedFor checks that every mutant is described, and that every package it names has a test
// that finds it.
func TestMutantsAreLookedFor(t *testing.T) {
	root, err := ModuleRoot()
	require.NoError(t, err)
	for _, m := range All() {
		require.NotEmpty(t, m.What, m.Name)
		require.NotEmpty(t, m.In, "%s: nothing has to find it", m.Name)
		for _, pkg := range m.In {
			text, err := os.ReadFile(filepath.Join(root, pkg, "mutants_test.go"))
			require.NoError(t, err)
			require.Contains(t, string(text), fmt.Sprintf("mutants.RequireFound(t, %q", pkg))
		}
	}
}
