package linked

import (
	"fmt"
	"strings"
)

// Report returns docs/policy/licences.md.
func Report(modules []Module) string {
	var b strings.Builder
	b.WriteString(`# Licences

What goversed links, on any of the systems for which it is released, and under which licence. ` + "`make licences`" + `
writes this page; a test holds that it is current, and that every licence is one of
` + strings.Join(permissive, ", ") + `. Each archive of a release has the texts.
A program that links Goverse links fewer of these: the server of etcd and what it needs are for
` + "`embedetcd`" + ` and goversed alone.

| module | version | licence |
|---|---|---|
| Go's standard library | | BSD-3-Clause |
`)
	for _, m := range modules {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.Path, m.Version, strings.Join(m.Licences, ", "))
	}
	return b.String()
}

// Texts returns the licences and notices of all modules, one after the other.
func Texts(modules []Module) string {
	var b strings.Builder
	b.WriteString("The licences of what goversed links. Its own is in LICENSE.\n")
	for _, m := range modules {
		fmt.Fprintf(&b, "\n%s\n%s %s\n%[1]s\n", strings.Repeat("=", 80), m.Path, m.Version)
		for _, text := range m.Texts {
			fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(text))
		}
	}
	return b.String()
}
