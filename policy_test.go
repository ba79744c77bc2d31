package goverse

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// experimental is the sentence of the package comment of every public package that is not stable.
const experimental = "Experimental: the API of this package may change in any minor release."

// stablePackages returns the packages that docs/policy/compatibility.md lists as stable.
func stablePackages(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("docs/policy/compatibility.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "| stable | for |\n|---|---|\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	var all []string
	for row := range strings.Lines(table) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(strings.Split(row, " | ")[0], -1) {
			all = append(all, name[1])
		}
	}
	require.Greater(t, len(all), 10, "the table is read")
	return all
}

// importablePackages lists the packages that users can import: the public ones, and the generated code.
func importablePackages(t *testing.T) []string {
	t.Helper()
	return append(publicPackages(t), "proto/goverse/node/v1", "proto/goverse/objects/v1")
}

// Every package that users can import is stable, or its comment states that it is experimental.
func TestEveryPackageHasAStability(t *testing.T) {
	all, stable := importablePackages(t), stablePackages(t)
	for _, name := range all {
		comment := strings.Join(strings.Fields(parsePackage(t, name).Doc), " ")
		marked := strings.Contains(comment, experimental)
		switch {
		case slices.Contains(stable, name) && marked:
			t.Errorf("package %s is in the table of docs/policy/compatibility.md, and its comment states otherwise", name)
		case !slices.Contains(stable, name) && !marked:
			t.Errorf("package %s is neither in the table of docs/policy/compatibility.md, nor does its comment have: %s",
				name, experimental)
		}
	}
	for _, name := range stablePackages(t) {
		require.Contains(t, all, name, "docs/policy/compatibility.md lists it, and it is no public package")
	}
}

// The toolchain that builds the programs is the same in every module and in the image.
func TestToolchainIsTheSame(t *testing.T) {
	line := regexp.MustCompile(`(?m)^toolchain go(\S+)$`)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.FromSlash(name))
		require.NoError(t, err)
		return string(text)
	}
	want := line.FindStringSubmatch(read("go.mod"))
	require.NotNil(t, want)
	for _, dir := range []string{"bench", "compat/etcd35", "compat/etcd36", "examples/cron", "examples/mongolease",
		"internal/test/tools"} {
		require.Equal(t, want, line.FindStringSubmatch(read(dir+"/go.mod")), dir)
	}
	require.Contains(t, read("deploy/docker/Dockerfile"), "FROM golang:"+want[1]+" AS build")
}
