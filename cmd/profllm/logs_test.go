package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

func TestLogs(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	l.job("", "") // logs asks Slurm only when it follows
	require.NoError(t, os.RemoveAll(filepath.Join(l.dir, run.LogDir)))
	require.NoError(t, os.Mkdir(filepath.Join(l.dir, run.LogDir), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(l.dir, "stderr.txt"), nil, 0o644))
	logs := func(code int, args ...string) outcome {
		t.Helper()
		o := profllm(t, l.dir, l.env(), append([]string{"slurm", "logs", l.dir}, args...)...)
		require.Equal(t, code, o.code)
		return o
	}
	require.Contains(t, logs(exitOK).stderr, "no logs yet")

	l.add("logs/bench-0.log", "start\n\r 10%|#| 1/10 [00:01<\r100%|##| 10/10 [00:09<\n")
	l.add("logs/decode-10.log", "ten\n")
	l.add("logs/decode-2.log", "one\ntwo\n\x1b[31mthree\x1b[0m\n")
	l.add("stderr.txt", "prefill is ready\n")
	var packed bytes.Buffer
	w, err := xz.NewWriter(&packed)
	require.NoError(t, err)
	for i := range 1000 {
		fmt.Fprintf(w, "line %d\n", i+1)
	}
	require.NoError(t, w.Close())
	l.add("logs/prefill-0.log.xz", packed.String())

	require.Equal(t, `prefill-0: line 999
prefill-0: line 1000
decode-2: two
decode-2: three
decode-10: ten
bench-0: start
bench-0: 100%|##| 10/10 [00:09<
job: prefill is ready
`, logs(exitOK, "--lines", "2").stdout, "as in the plan, each by rank, the job last")
	require.Equal(t, "decode-2: three\ndecode-10: ten\n", logs(exitOK, "--lines", "1", "--role", "decode").stdout)
	require.Equal(t, "two\nthree\n", logs(exitOK, "--lines", "2", "--role", "decode-2").stdout, "one needs no name")
	require.Equal(t, "prefill is ready\n", logs(exitOK, "--role", "job").stdout)
	require.Contains(t, logs(exitUsage, "--role", "serve").stderr, "known: bench, decode, job, prefill")
	require.Equal(t, exitUsage, profllm(t, l.dir, nil, "slurm", "logs", "nowhere").code)
	logs(exitUsage, "--lines=-1")
	logs(exitUsage, "--follow", "--role", "serve") // nothing to wait for

	// A run that failed: where its cause shows, in a log that was packed since.
	l.fails(&result.Failure{Cause: "cuda-oom", File: "logs/prefill-0.log", LineNumber: 500})
	o := logs(exitOK, "--lines", "4")
	require.Equal(t, "     498  line 498\n     499  line 499\n>    500  line 500\n     501  line 501\n", o.stdout)
	require.Contains(t, o.stderr, "cause cuda-oom, logs/prefill-0.log.xz:500")
	require.Equal(t, "line 1000\n", logs(exitOK, "--lines", "1", "--role", "prefill").stdout,
		"a name asks for the log's end")

	// One that ended well has its tails.
	require.NoError(t, os.Remove(filepath.Join(l.dir, run.ResultFile)))
	require.NoError(t, run.WriteFile(filepath.Join(l.dir, run.SentinelFile), l.finish, 0o644))
	require.Contains(t, logs(exitOK, "--lines", "1").stdout, "decode-10: ten\n")
}

// fails writes a record with a cause.
func (l *live) fails(f *result.Failure) {
	l.t.Helper()
	require.NoError(l.t, run.WriteJSON(filepath.Join(l.dir, run.ResultFile), result.Result{Failure: f}))
}

// What is added shows, of new logs too, until the job is over; however it ended.
func TestLogsFollow(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(l *live){
		"sentinel": func(l *live) {
			require.NoError(l.t, run.WriteFile(filepath.Join(l.dir, run.SentinelFile), l.finish, 0o644))
		},
		"killed": func(l *live) { l.job("", "CANCELLED") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLive(t)
			require.NoError(t, os.RemoveAll(filepath.Join(l.dir, run.LogDir)))
			require.NoError(t, os.Mkdir(filepath.Join(l.dir, run.LogDir), 0o755))
			l.add("logs/decode-0.log", "one\ntwo\n")
			cmd := command(l.dir, l.env(), "slurm", "logs", l.dir, "--follow", "--lines", "1")
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			lines := bufio.NewScanner(out)
			next := func(want string) {
				t.Helper()
				for lines.Scan() {
					if !strings.HasPrefix(lines.Text(), "job: ") && !strings.HasPrefix(lines.Text(), "proxy-0: ") {
						require.Equal(t, want, lines.Text())
						return
					}
				}
				t.Fatalf("ended before %q", want)
			}
			next("decode-0: two")
			l.add("logs/decode-0.log", "thr")
			l.add("logs/bench-0.log", "load: 1/2 done\n")
			next("bench-0: load: 1/2 done")
			l.add("logs/decode-0.log", "ee\n")
			next("decode-0: three")
			l.add("logs/bench-0.log", "unfinished")
			end(l)
			next("bench-0: unfinished")
			require.False(t, lines.Scan())
			require.NoError(t, cmd.Wait())
		})
	}
}
