package run_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// On a fresh site nobody has made the folders that containers are given.
func TestMountedFoldersAreMade(t *testing.T) {
	s := newSubmitter(t)
	site := t.TempDir()
	p, err := run.ReadPlan(s.dir)
	require.NoError(t, err)
	p.Folders = []string{filepath.Join(site, "install"), filepath.Join(site, "install/huggingface"), site}
	p.Mounts = []string{filepath.Join(site, "data") + ":/data", site + ":/site", "tmpfs:/tmp"}
	p.Roles = append(p.Roles, plan.Role{Step: plan.Step{Container: true}})
	require.NoError(t, run.WriteJSON(filepath.Join(s.dir, run.PlanFile), p))
	var said strings.Builder
	s.Log = func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) }

	require.NoError(t, s.Submit(t.Context(), s.dir).Err)
	require.DirExists(t, p.Folders[1])
	require.Equal(t, 2, strings.Count(said.String(), "which is mounted into containers"), said.String())
	require.Contains(t, said.String(), "mount sources missing on this machine: "+filepath.Join(site, "data")+" (")
	require.NoDirExists(t, filepath.Join(site, "data"), "the user's folders are the user's")
}

func TestMountedFolderCannotBeMade(t *testing.T) {
	s := newSubmitter(t)
	p, err := run.ReadPlan(s.dir)
	require.NoError(t, err)
	p.Folders = []string{"/proc/no/folder"}
	require.NoError(t, run.WriteJSON(filepath.Join(s.dir, run.PlanFile), p))
	err = s.Submit(t.Context(), s.dir).Err
	require.ErrorContains(t, err, "create a folder to mount into containers: mkdir /proc/no")
	require.ErrorContains(t, err, "hint: set install_path and hf_home_path")
	require.Empty(t, s.fake.Jobs(), "nothing was submitted")
}
