// Command try runs go test with one mutant in all packages under test, and in the programs that the tests
// build. Without arguments it lists the mutants.
//
//	go run ./internal/test/mutants/try takeover-unreleased ./integration -run 'TestChaos$' -v
//
// Not promised: that the tests find the mutant.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/goverse/goverse/internal/test/mutants"
)

func main() {
	if len(os.Args) < 2 {
		for _, m := range mutants.All() {
			fmt.Printf("%-28s %s\n", m.Name, m.What)
		}
		return
	}
	if err := tryMutant(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "try:", err)
		os.Exit(1)
	}
}

func tryMutant(name string, args []string) error {
	if !slices.ContainsFunc(mutants.All(), func(m mutants.Mutant) bool { return m.Name == name }) {
		return fmt.Errorf("%s is not the name of a mutant: without arguments all are listed", name)
	}
	root, err := mutants.ModuleRoot()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := mutants.WriteOverlay(root, dir, mutants.All())
	if err != nil {
		return err
	}
	cmd := exec.Command("go", append([]string{"test", "-count=1"}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// The environment also reaches the programs that the tests build and start. go vet does not see packages
	// that exist only in an overlay.
	cmd.Env = append(os.Environ(), mutants.Variable+"="+name,
		"GOFLAGS="+os.Getenv("GOFLAGS")+" -vet=off -overlay="+overlay)
	return cmd.Run()
}
