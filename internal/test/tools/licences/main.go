// Licences writes docs/policy/licences.md, for `make licences`.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/goverse/goverse/internal/test/tools/linked"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run() error {
	root, err := linked.RootDir()
	if err != nil {
		return err
	}
	modules, err := linked.Modules()
	if err != nil {
		return err
	}
	path := filepath.Join(root, "docs", "policy", "licences.md")
	return os.WriteFile(path, []byte(linked.Report(modules)), 0o644) //nolint:gosec // it is public
}
