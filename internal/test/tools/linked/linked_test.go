package linked

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// The page of licences is current, and every module that goversed links has a permissive licence.
func TestLicencesAreCurrent(t *testing.T) {
	t.Parallel()
	modules, err := Modules()
	if err != nil {
		t.Fatal(err)
	}
	root, err := RootDir()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "policy", "licences.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != Report(modules) {
		t.Error("docs/policy/licences.md is not current; run: make licences")
	}
}

// A licence that asks for more, and a text that is no licence, are refused.
func TestLicencesAreRefused(t *testing.T) {
	t.Parallel()
	const mpl = "This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the " +
		"MPL was not distributed with this file, You can obtain one at http://mozilla.org/MPL/2.0/."
	for name, text := range map[string]string{"MPL": mpl, "no licence": "All rights reserved."} {
		if _, err := identify([]byte(text)); !errors.Is(err, ErrLicence) {
			t.Errorf("%s: %v", name, err)
		}
	}
	own, err := os.ReadFile("../../../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := identify(own); err != nil || len(ids) != 1 || ids[0] != "Apache-2.0" {
		t.Errorf("our own licence: %v, %v", ids, err)
	}
}
