// Package cloudaitest finds CloudAI's own conf folder for tests, where this machine has
// it. The files are read in place: this repository holds no copy of them.
//
//	dir := cloudaitest.Conf(t, os.Environ()) // skips the test, with the reason, where there is none
package cloudaitest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Variable names the folder; without it, it is looked for beside the checkout.
// Required = 1 makes a missing folder a failure.
const (
	Variable = "PROFLLM_CLOUDAI_CONF"
	Required = "PROFLLM_REQUIRE_CORPUS"
)

// beside is the folder from that of go.mod.
const beside = "../shared/corpus/cloudai/conf"

// Conf returns the folder, absolute.
func Conf(t testing.TB, environ []string) string {
	t.Helper()
	dir, named := "", false
	for _, v := range environ {
		if value, ok := strings.CutPrefix(v, Variable+"="); ok && value != "" {
			dir, named = value, true
		}
	}
	if !named {
		dir = filepath.Join(root(t), filepath.FromSlash(beside))
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(dir); err == nil && st.IsDir() {
		return dir
	}
	if named {
		t.Fatalf("%s: %s is not a folder", Variable, dir)
	}
	const why = "CloudAI's own files are not here: " + Variable +
		" names the folder conf of a clone of github.com/NVIDIA/cloudai"
	if slices.Contains(environ, Required+"=1") {
		t.Fatal(why)
	}
	t.Skip(why)
	return ""
}

// root is the folder of go.mod.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}
