package kube_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/kubetest"
	"github.com/profllm/profllm/pkg/scheduler/kube"
)

const (
	activeJob = `{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x-client", "namespace": "bench",
  "uid": "0123456789", "labels": {"profllm.io/run": "x-id"}}, "status": {"active": 1}}`
	activePod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x-client-abcde", "namespace": "bench",
  "uid": "98765", "labels": {"profllm.io/run": "x-id"}, "ownerReferences": [{"kind": "Job", "name": "x-client", "uid": "0123456789"}]},
  "status": {"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": 0, "state": {"running": {}}}]}}`
)

// logsInTurn answers the first kubectl logs by the file log-1, the second by log-2, and so on. One for which
// there is no file is empty, or waits until it is ended.
const logsInTurn = `*" logs "*) n=$(($(cat n 2>/dev/null) + 1)); echo $n >n; cat log-$n 2>/dev/null && exit 1
  case "$*" in *--follow*) echo $$ >pid; exec sleep 600;; esac;;
*" get pod "*) cat pod;;`

// following is a follower of a run that is over once end is called.
type following struct {
	*left
	over  atomic.Bool
	lines []string
	done  chan error
}

// followed begins to follow the run of one client, whose log is in parts.
func followed(t *testing.T, ctx context.Context, more string, parts ...string) *following {
	t.Helper()
	f := &following{left: leftBehind(t, more+logsInTurn, activeJob, activePod), done: make(chan error, 1)}
	f.answer("pod", activePod)
	for i, text := range parts {
		f.answer("log-"+strconv.Itoa(i+1), text)
	}
	go func() {
		err := f.Follow(ctx, leftID, kube.Following{Lines: 20, Ended: func() (bool, error) { return f.over.Load(), nil }},
			func(l kube.Line) error { f.lines = append(f.lines, l.Step+": "+l.Text); return nil })
		f.done <- err // after the last line
	}()
	return f
}

// read waits until kubectl logs was called so often.
func (f *following) read(n int) {
	f.t.Helper()
	await.True(f.t, func() bool {
		data, _ := os.ReadFile(filepath.Join(f.at, "n"))
		had, _ := strconv.Atoi(strings.TrimSpace(string(data)))
		return had >= n
	}, "kubectl logs was called %d times", n)
}

const stamped = "2026-11-26T12:00:0"

// A connection that drops is made again: no line is lost, none is printed twice, and of lines of one time
// each counts. The archive of results is not for people.
//
// covers: P-18
func TestFollowAgain(t *testing.T) {
	f := followed(t, t.Context(), "",
		stamped+"1.5Z one\n"+stamped+"2Z two\n"+stamped+"2Z two\n"+stamped+"3.25Z three, which is cu",
		stamped+"1.5Z one\n"+stamped+"2Z two\n"+stamped+"2Z two\n"+stamped+"2Z another two\n"+stamped+"3.25Z three\n",
		stamped+"3Z not again\n"+stamped+"3.25Z three\n"+stamped+"4Z profllm: archive 3 sha256:"+strings.Repeat("0", 64)+"\n"+
			stamped+"4Z H4sI\n"+stamped+"4Z profllm: archive ends\n")
	f.read(4)
	f.answer("log-5", stamped+"4Z profllm: archive 3 sha256:"+strings.Repeat("0", 64)+"\n"+stamped+"4Z H4sI\n"+
		stamped+"4Z profllm: archive ends\n"+stamped+"5Z the last one")
	f.over.Store(true)
	require.NoError(t, <-f.done)
	require.Equal(t, []string{"job: one", "job: two", "job: two", "job: another two", "job: three",
		"job: profllm: archive 3 sha256:" + strings.Repeat("0", 64), "job: profllm: archive ends", "job: the last one"}, f.lines)
	calls := f.calls()
	require.Contains(t, calls, "--timestamps --follow --tail=20")
	require.Contains(t, calls, "--timestamps --follow --since-time=2026-11-26T12:00:02Z")
	require.Contains(t, calls, "--timestamps --since-time=2026-11-26T12:00:04Z", "without --follow at last")
	require.Contains(t, calls, "--request-timeout=0s logs")
}

// A command that is interrupted ends its kubectl.
//
// covers: P-18
func TestFollowInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := followed(t, ctx, "", stamped+"1Z one\n")
	f.read(2)
	pid := 0
	await.True(t, func() bool {
		data, _ := os.ReadFile(filepath.Join(f.at, "pid"))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(data)))
		return pid > 0
	}, "kubectl logs waits")
	cancel()
	require.ErrorIs(t, <-f.done, context.Canceled)
	await.True(t, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }, "kubectl is gone")
}

// A pod that is gone ends its log; what a container printed before it was started again is read.
func TestFollowPodIsGone(t *testing.T) {
	f := followed(t, t.Context(), `*" logs "*--previous*) echo '`+stamped+`2Z crashed';;
*" get pod "*) if [ -e gone ]; then echo 'Error from server (NotFound): pods "x-client-abcde" not found' >&2; exit 1; fi; cat pod;;
`, stamped+"1Z one\n", stamped+"1Z one\n"+stamped+"3Z two\n")
	f.answer("pod", strings.Replace(activePod, `"restartCount": 0`, `"restartCount": 1`, 1))
	f.read(3)
	f.answer("gone", "")
	f.over.Store(true)
	require.NoError(t, <-f.done)
	require.Equal(t, []string{"job: one", "job: crashed", "job: two"}, f.lines)
}

// The last lines of a log may begin within the archive.
func TestFollowHidesArchive(t *testing.T) {
	f := followed(t, t.Context(), "", stamped+"1Z "+strings.Repeat("Ab+/", 19)+"\n"+stamped+"1Z AA==\n"+
		stamped+"1Z profllm: archive ends\n"+stamped+"2Z "+strings.Repeat("Ab+/", 19)+"\n")
	f.read(2)
	f.over.Store(true)
	require.NoError(t, <-f.done)
	require.Equal(t, []string{"job: profllm: archive ends", "job: " + strings.Repeat("Ab+/", 19)}, f.lines)
}

// What ends the wait for the end of a run is what Follow returns; so is what show returns.
func TestFollowFails(t *testing.T) {
	l := leftBehind(t, logsInTurn, activeJob, activePod)
	bad := errors.New("it can never start")
	err := l.Follow(t.Context(), leftID, kube.Following{Ended: func() (bool, error) { return false, bad }}, nil)
	require.ErrorIs(t, err, bad)
	l.answer("log-1", stamped+"1Z one\n"+stamped+"2Z two\n")
	l.answer("pod", activePod)
	shown := 0
	err = l.Follow(t.Context(), leftID, kube.Following{Lines: 1, Ended: func() (bool, error) { return false, nil }},
		func(kube.Line) error { shown++; return bad })
	require.Equal(t, bad, err)
	require.Equal(t, 1, shown)
}

// The last lines are read once more if that fails, and then Follow says that they may be missing; so it does if the
// pods cannot be listed once the run is over. A log that is gone has no more lines.
//
// covers: P-18
func TestFollowLosesTheEnd(t *testing.T) {
	const failing = `*" logs "*--follow*) echo >asked; exec sleep 600;;
*" logs "*) n=$(($(cat n 2>/dev/null) + 1)); echo $n >n; if [ $n -le $(cat fails) ]; then cat said >&2; exit 1; fi; echo '` + stamped +
		`1Z one';;
*" get pod "*) cat pod;;
*" get pods"*) if [ -e nopods ]; then cat nopods >&2; exit 1; fi; cat objects;;
`
	const refused = "Error from server (InternalError): the kubelet is away\n"
	for name, c := range map[string]struct {
		fails        int
		said, nopods string
		lines        []string
		want         []string
	}{
		"once":  {1, refused, "", []string{"job: one"}, nil},
		"twice": {2, refused, "", nil, []string{"the last lines of job may be missing", "the kubelet is away"}},
		"gone":  {9, "Error from server (NotFound): pods \"x-client-abcde\" not found\n", "", nil, nil},
		"pods": {0, refused, "Error from server (InternalError): no list today\n", []string{"job: one"},
			[]string{"logs of pods that began last may be missing", "no list today"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := leftBehind(t, failing, activeJob, activePod)
			l.answer("fails", strconv.Itoa(c.fails))
			l.answer("said", c.said)
			l.answer("pod", activePod)
			var lines []string
			err := l.Follow(t.Context(), leftID, kube.Following{Lines: 20, Ended: func() (bool, error) {
				if _, err := os.Stat(filepath.Join(l.at, "asked")); err != nil {
					return false, nil
				}
				if c.nopods != "" {
					l.answer("nopods", c.nopods)
				}
				return true, nil
			}}, func(x kube.Line) error { lines = append(lines, x.Step+": "+x.Text); return nil })
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			if c.want == nil {
				require.NoError(t, err)
			}
			require.Equal(t, c.lines, lines)
		})
	}
}

// kubectl of a real cluster, and a container that is not there yet.
func TestKubeFollow(t *testing.T) {
	r := lab(t).run("fol")
	id := r.submit()
	var over atomic.Bool
	said := make(chan kube.Line)
	done := make(chan error, 1)
	go func() {
		done <- r.Follow(t.Context(), id, kube.Following{Lines: 5, Ended: func() (bool, error) { return over.Load(), nil },
			Wants: func(step string, _ int) bool { return step != "job" }}, func(l kube.Line) error { said <- l; return nil })
		close(said)
	}()
	r.Says("fol-decode", "loading\nloaded\n"+kubetest.Printed([]byte("x")))
	r.pod("decode", oneContainer)
	for _, want := range []string{"loading", "loaded"} {
		require.Equal(t, kube.Line{Step: "decode", Text: want}, <-said)
	}
	over.Store(true)
	var rest []string
	for l := range said {
		rest = append(rest, l.Text)
	}
	require.NoError(t, <-done)
	require.Len(t, rest, 2, "the markers: %q", rest)
}
