package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

// hostile are what somebody can put in the place of a file.
var hostile = map[string]func(t *testing.T, path string){
	"pipe":   func(t *testing.T, path string) { require.NoError(t, syscall.Mkfifo(path, 0o644)) },
	"zero":   func(t *testing.T, path string) { require.NoError(t, os.Symlink("/dev/zero", path)) },
	"loop":   func(t *testing.T, path string) { require.NoError(t, os.Symlink(filepath.Base(path), path)) },
	"folder": func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o755)) },
	"sparse": func(t *testing.T, path string) {
		require.NoError(t, os.WriteFile(path, []byte("{"), 0o644))
		require.NoError(t, os.Truncate(path, 1<<40))
	},
}

// peak is the most memory that a verb may take of files that it does not read.
const peak = 400 << 20

// memoryVar names a file: this program then runs its arguments, and writes how much memory they took at most. Linux
// counts the memory of whoever starts a program for it, and a process of tests has much.
const memoryVar = "PROFLLM_TEST_MEMORY"

func runMeasured(argv []string, file string) int {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	var exited *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exited) {
		fmt.Fprintln(os.Stderr, err)
		return exitInternal
	}
	rss := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	if err := os.WriteFile(file, []byte(strconv.FormatInt(rss, 10)), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitInternal
	}
	return cmd.ProcessState.ExitCode()
}

// spoilt runs a verb and returns what it said and how it ended.
func spoilt(t *testing.T, dir string, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if end, ok := t.Deadline(); ok {
		ctx, cancel = context.WithDeadline(ctx, end)
		defer cancel()
	}
	memory := filepath.Join(t.TempDir(), "memory")
	cmd := exec.CommandContext(ctx, os.Args[0], append([]string{binary}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), memoryVar+"="+memory)
	out, err := cmd.CombinedOutput()
	require.NotNil(t, cmd.ProcessState, "%v", err)
	require.True(t, cmd.ProcessState.Exited(), "%v: %v", args, cmd.ProcessState)
	rss, err := strconv.ParseInt(readText(t, memory), 10, 64)
	require.NoError(t, err)
	require.Less(t, rss, int64(peak), "%v takes memory", args)
	require.NotContains(t, string(out), "panic:")
	return string(out), cmd.ProcessState.ExitCode()
}

// unasked are files that collect has no use for, or writes anew.
var unasked = []string{"intent.json", "submit.json", "job.sh", "job.env", "stdout.txt", "stderr.txt", "left",
	"state.json", "bench-0.log", "serve-0.log"}

// Whatever stands in the place of whichever file of a run: no verb waits or takes
// memory, the file is named, and the run beside it stays as it is.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs a rehearsal")
	}
	f := finishedRuns(t, 100)
	top := t.TempDir()
	good := filepath.Join(top, "results", "good")
	copyTree(t, filepath.Join(f.root, "plain/0"), good)
	_, code := spoilt(t, top, "collect", "results")
	require.Equal(t, exitOK, code)
	want := readText(t, filepath.Join(good, run.ResultFile))

	seed := filepath.Join(f.root, "failed/0")
	bad := map[string]string{} // by the run that holds it: the file
	for _, name := range filesOf(t, seed) {
		for kind, put := range hostile {
			at := filepath.Join(top, "results", fmt.Sprintf("run%d-%s", len(bad), kind))
			copyTree(t, seed, at)
			require.NoError(t, os.Remove(filepath.Join(at, name)))
			put(t, filepath.Join(at, name))
			bad[at] = name
		}
	}
	t.Logf("%d spoilt runs", len(bad))
	for _, args := range [][]string{
		{"collect", "results"}, {"report", "results"}, {"trend", "results"}, {"slurm", "status", "results"},
		{"export", "llm-d", "--output", "out/", "results"}, {"import", "--output", "in", "results"}, {"archive", "results"}, {"why", "results"},
	} {
		out, code := spoilt(t, top, args...)
		t.Logf("%v: %d, %d lines", args, code, strings.Count(out, "\n"))
		require.Equal(t, want, readText(t, filepath.Join(good, run.ResultFile)), "%v", args)
		if args[0] == "why" {
			untold := []string{}
			for at, name := range bad {
				if !strings.Contains(out, filepath.Base(at)) {
					untold = append(untold, filepath.Base(at)+" "+name)
				}
			}
			require.Empty(t, untold, "one run that cannot be read hides no other")
			require.Contains(t, out, "\n1 valid run\n")
		}
		if args[0] != "collect" {
			continue
		}
		for at, name := range bad {
			if !slices.Contains(unasked, filepath.Base(name)) && filepath.Dir(name) != "left" {
				require.Regexp(t,
					regexp.QuoteMeta(filepath.Base(at))+"[^a-z0-9].*"+regexp.QuoteMeta(filepath.Base(name)), out)
			}
		}
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(top, "pipe"), 0o644))
	_, code = spoilt(t, top, "collect", "pipe") // which nobody writes
	require.Equal(t, exitUsage, code)
	for at, name := range bad {
		if kind := filepath.Ext(strings.ReplaceAll(at, "-", ".")); kind == ".pipe" ||
			kind == ".sparse" && strings.HasSuffix(name, ".log") {
			spoilt(t, top, "why", at)
			spoilt(t, top, "slurm", "logs", at)
		}
	}
}

// filesOf lists the files of a directory.
func filesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			rel, err := filepath.Rel(dir, path)
			require.NoError(t, err)
			names = append(names, rel)
		}
		return err
	}))
	return names
}
