package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// aggregatedMocker is a mocker that does everything, with more of its table.
const aggregatedMocker = "[Tests.cmd_args.dynamo.prefill_worker]\nnum_nodes = 0\n[Tests.cmd_args.dynamo.decode_worker]\n"

// A worker that cannot use the folder by which processes find each other ends with exit code 0. The record says which
// worker ended, and why.
//
// covers: U-19, U-24
func TestDynamoDiscoveryFolder(t *testing.T) {
	t.Parallel()
	dir, _ := dynamoLab(t)
	code, all := submitDynamo(t, dir, "folder", aggregatedMocker+`cmd = "env DYN_FILE_KV=/proc/none python3 -m dynamo.mocker"`)
	require.Equal(t, exitJobFailed, code)
	r := all["folder"]
	require.False(t, r.Validity.Valid)
	require.Equal(t, "dynamo-discovery-folder", r.Failure.Cause)
	require.Equal(t, "worker", r.Failure.Role)
	require.Contains(t, r.Failure.Line, "Internal filesystem error: No such file or directory")
	require.Contains(t, r.Failure.Next, "ends with exit code 0")
	require.Contains(t, r.Validity.Check("role-died").Detail, "ended with 0")
}

// A user's own file of LMCache is copied and filled in on the worker's node. An unknown placeholder ends the job before
// the worker begins, with the line of the file.
//
// covers: U-28, U-29
func TestDynamoPlaceholders(t *testing.T) {
	t.Parallel()
	dir, _ := dynamoLab(t)
	file := filepath.Join(dir, "own.yaml")
	config := aggregatedMocker + "[Tests.extra_env_vars]\nLMCACHE_CONFIG_FILE = \"" + file + "\"\n"
	const text = "remote_url: \"lm://{frontend_node}:8300\"\npath: \"{storage_cache_dir}\"\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o444))
	code, all := submitDynamo(t, dir, "own", config)
	require.Equal(t, exitOK, code)
	require.True(t, all["own"].Validity.Valid, all["own"].Validity.Words)
	copies, err := filepath.Glob(filepath.Join(dir, "results/own_*/own/0/runtime/*.LMCACHE_CONFIG_FILE.yaml"))
	require.NoError(t, err)
	require.Len(t, copies, 1)
	data, err := os.ReadFile(copies[0])
	require.NoError(t, err)
	require.Regexp(t, `^remote_url: "lm://[\w.]+:8300"\npath: "/tmp/profllm-[\w-]+/lmcache"\n$`, string(data))
	data, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, text, string(data))

	require.NoError(t, os.Chmod(file, 0o644))
	require.NoError(t, os.WriteFile(file, []byte("a: 1\nb: {cache_dir}\n"), 0o644))
	code, all = submitDynamo(t, dir, "unknown", config)
	require.Equal(t, exitJobFailed, code)
	require.Equal(t, "node-files", all["unknown"].Failure.Cause)
	require.Contains(t, all["unknown"].Failure.Line, "own.yaml:2: unknown placeholder {cache_dir}")
}
