package kube_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/kubetest"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/kube"
)

// leftID is the id of the Job of left.
const leftID = "kube-bench.x-client.01234567"

const leftJob = `{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x-client", "namespace": "bench",
  "uid": "0123456789", "creationTimestamp": "2026-11-26T12:00:00Z", "labels": {"profllm.io/run": "x-id"}},
  "status": {"conditions": [{"type": "Complete", "status": "True"}], "startTime": "2026-11-26T12:00:00Z",
  "completionTime": "2026-11-26T12:10:00Z"}}`

const leftPod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x-client-abcde", "namespace": "bench",
  "uid": "98765", "labels": {"profllm.io/run": "x-id"}, "ownerReferences": [{"kind": "Job", "name": "x-client", "uid": "0123456789"}]},
  "status": {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 0}}}]}}`

// left is a run whose Job is there, and a kubectl that answers from files.
type left struct {
	*kube.Kube
	t     *testing.T
	dir   string
	plan  *plan.Plan
	at    string // folder of the answers
	env   []string
	calls func() string
}

// leftBehind is a run with these objects. more are cases of the fake's arguments, which come first.
func leftBehind(t *testing.T, more string, objects ...string) *left {
	t.Helper()
	l := &left{t: t, at: t.TempDir()}
	l.dir, l.plan = planned(t)
	l.plan.Loads = []plan.Load{{RunID: "x-id", Dir: l.dir, Clients: []plan.Step{{Name: "bench"}}, Client: "aiperf"}}
	env, calls := fake(t, "cd "+l.at+`
case "$*" in `+more+`
*" get events"*) echo '{"kind": "List", "items": []}';;
*" get "*) cat objects;;
*" logs "*) cat log;;
esac`)
	l.env, l.calls = env, calls
	l.objects(objects...)
	l.log(finished())
	l.Kube = kube.New(env, time.Now)
	require.NoError(t, l.Know(l.dir, l.plan, leftID))
	return l
}

// finished is the log of a client that has measured.
func finished() string {
	return "profllm: phase ready exit 0\nprofllm: phase bench exit 0\n" +
		kubetest.Printed(kubetest.Packed(kubetest.Entry{Name: "raw/profile.json", Text: "{}"}))
}

func (l *left) objects(items ...string) {
	l.t.Helper()
	l.answer("objects", `{"kind": "List", "items": [`+strings.Join(items, ",")+`]}`)
}

func (l *left) log(text string) { l.t.Helper(); l.answer("log", text) }

func (l *left) answer(name, text string) {
	l.t.Helper()
	require.NoError(l.t, os.WriteFile(filepath.Join(l.at, name), []byte(text), 0o644))
}

func (l *left) fetch(state string) error {
	l.t.Helper()
	_, err := l.Fetch(l.t.Context(), leftID, run.State{JobID: leftID, State: state})
	return err
}

func (l *left) clean(ctx context.Context) error {
	_, err := l.Clean(ctx, l.dir, l.plan, leftID)
	return err
}

// end is the sentinel, nil if there is none.
func (l *left) end() *run.Sentinel {
	l.t.Helper()
	var s run.Sentinel
	if err := run.ReadJSON(filepath.Join(l.dir, run.SentinelFile), &s); err != nil {
		require.ErrorIs(l.t, err, os.ErrNotExist)
		return nil
	}
	return &s
}

func (l *left) fetched() (f kube.Fetched) {
	l.t.Helper()
	require.NoError(l.t, run.ReadJSON(filepath.Join(l.dir, kube.FetchFile), &f))
	return f
}

// A log that cannot be read today is no end: it is fetched with the next try.
//
// covers: P-18
func TestFetchUnreadableLog(t *testing.T) {
	for _, said := range []string{
		`Error from server (Forbidden): pods "x-client-abcde" is forbidden: User "u" cannot get resource "pods/log" in API group "" in the namespace "bench"`,
		`error: You must be logged in to the server (Unauthorized)`,
		`Error from server: no preferred addresses found; known addresses: []`,
		`Error from server (InternalError): an error on the server ("unknown") has prevented the request from succeeding`,
	} {
		l := leftBehind(t, fmt.Sprintf(`*" logs "*) if [ -e broken ]; then echo '%s' >&2; exit 1; fi; cat log;;`, said),
			leftJob, leftPod)
		l.answer("broken", "")
		err := l.fetch(run.Succeeded)
		require.ErrorContains(t, err, strings.TrimPrefix(strings.TrimPrefix(said, "error: "), "Error from server (Forbidden): "))
		require.Nil(t, l.end(), said)
		require.NoError(t, os.Remove(filepath.Join(l.at, "broken")))
		require.NoError(t, l.fetch(run.Succeeded))
		require.Zero(t, l.end().Code)
		require.FileExists(t, filepath.Join(l.dir, "raw/profile.json"))
	}
}

// A log that is gone for ever is one, and the fault says so.
func TestFetchLogIsGone(t *testing.T) {
	l := leftBehind(t, `*" logs "*) echo 'Error from server (NotFound): pods "x-client-abcde" not found' >&2; exit 1;;`,
		leftJob, leftPod)
	require.NoError(t, l.fetch(run.Succeeded))
	require.Equal(t, run.PhaseFailed, l.end().Code)
	require.Contains(t, l.fetched().Fault, `results-missing: the log holds no archive of results (job: Error from server (NotFound): pods "x-client-abcde" not found)`)
	require.Contains(t, read(t, l.dir, "logs/fetch-0.log"), `pods "x-client-abcde" not found`)
}

// Of two commands, the slow one changes nothing of what the other has fetched.
//
// covers: P-18
func TestFetchAtOnce(t *testing.T) {
	l := leftBehind(t, `*" logs "*) mkfifo asked 2>/dev/null; echo >asked; cat log;;`, leftJob, leftPod)
	slow := make(chan error)
	go func() { slow <- l.fetch(run.Succeeded) }()
	await.True(t, func() bool { _, err := os.Stat(filepath.Join(l.at, "asked")); return err == nil }, "the slow one reads the log")
	fast := make(chan error)
	go func() { fast <- l.fetch(run.Succeeded) }()
	_, err := os.ReadFile(filepath.Join(l.at, "asked")) // lets it go on
	require.NoError(t, err)
	require.NoError(t, <-slow)
	require.NoError(t, <-fast)
	require.Equal(t, 1, strings.Count(l.calls(), " logs "), "one fetches, the other waits")
	require.Zero(t, l.end().Code)
}

// A Job that is deleted while its logs are read is not judged by what is missing.
func TestFetchDeletedMeanwhile(t *testing.T) {
	l := leftBehind(t, `*" logs "*) echo '{"kind": "List", "items": []}' >objects
		echo 'Error from server (NotFound): pods "x-client-abcde" not found' >&2; exit 1;;`, leftJob, leftPod)
	require.ErrorContains(t, l.fetch(run.Succeeded), "was deleted while its logs were read")
	require.Nil(t, l.end())
}

// A run is cancelled once the cluster has accepted that, and not before.
//
// covers: P-18
func TestCancelRefused(t *testing.T) {
	active := strings.Replace(leftJob, `"conditions": [{"type": "Complete", "status": "True"}], `, "", 1)
	l := leftBehind(t, `*" delete "*) if [ -e broken ]; then
		echo 'Error from server (Forbidden): jobs.batch is forbidden: User "u" cannot delete resource "jobs" in API group "batch" in the namespace "bench"' >&2; exit 1; fi;;`,
		active, leftPod)
	l.answer("broken", "")
	l.log("profllm: phase ready exit 0\n")
	require.ErrorContains(t, l.Cancel(t.Context(), leftID), "this account may not delete jobs.batch in namespace bench")
	require.Nil(t, l.end())
	for _, name := range []string{run.ClaimFile, kube.FetchFile} {
		require.NoFileExists(t, filepath.Join(l.dir, name))
	}
	require.FileExists(t, filepath.Join(l.dir, "logs/job.log"))
	require.NoError(t, os.Remove(filepath.Join(l.at, "broken")))
	require.NoError(t, l.Cancel(t.Context(), leftID))
	require.Equal(t, run.Terminated, l.end().Code)
}

// A run that has ended by itself when it is to be cancelled keeps its end and its results.
func TestCancelEnded(t *testing.T) {
	l := leftBehind(t, `*" delete "*) touch deleted;; *" logs "*) if [ -e broken ]; then exit 1; fi; cat log;;`, leftJob, leftPod)
	l.answer("broken", "")
	require.ErrorContains(t, l.Cancel(t.Context(), leftID), "its results are not fetched")
	require.NoFileExists(t, filepath.Join(l.at, "deleted"))
	require.NoError(t, os.Remove(filepath.Join(l.at, "broken")))
	require.NoError(t, l.Cancel(t.Context(), leftID))
	require.FileExists(t, filepath.Join(l.at, "deleted"))
	require.Zero(t, l.end().Code)
	require.FileExists(t, filepath.Join(l.dir, "raw/profile.json"))
}

// What this machine cannot write is no fault of the archive.
//
// covers: P-18
func TestUnpackOnThisMachine(t *testing.T) {
	l := leftBehind(t, "", leftJob, leftPod)
	away := t.TempDir()
	raw := filepath.Join(l.dir, "raw")
	require.NoError(t, os.Symlink(away, raw))
	require.Error(t, l.fetch(run.Succeeded))
	require.Nil(t, l.end())
	require.NoError(t, os.Remove(raw))
	require.NoError(t, l.fetch(run.Succeeded))
	require.Zero(t, l.end().Code)
	require.FileExists(t, filepath.Join(raw, "profile.json"))
}

// The archive's own fault is one, and nothing of it is left.
func TestUnpackDamaged(t *testing.T) {
	for name, more := range map[string]kubetest.Entry{
		"twice":  {Name: "logs/job.log", Text: "x"},
		"folder": {Name: "logs/job.log/x", Text: "x"},
		"long":   {Name: "raw/" + strings.Repeat("x", 300), Text: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			l := leftBehind(t, "", leftJob, leftPod)
			l.log("hello\n" + kubetest.Printed(kubetest.Packed(kubetest.Entry{Name: "logs/job.log", Text: "x"}, more)))
			require.NoError(t, l.fetch(run.Succeeded))
			require.Contains(t, l.fetched().Fault, "results-damaged")
			require.Contains(t, read(t, l.dir, "logs/job.log"), "hello")
		})
	}
}

const ownDeployment = `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "mine", "namespace": "bench", "uid": "5",
  "labels": {"profllm.io/run": "x-id"}}}`

const ownPod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mine-77-abc", "namespace": "bench", "uid": "6",
  "labels": {"profllm.io/run": "x-id"}, "ownerReferences": [{"kind": "ReplicaSet", "name": "mine-77", "uid": "7"}]}}`

const lingeringGraph = `{"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": {"name": "x", "namespace": "bench",
  "uid": "8", "labels": {"profllm.io/run": "x-id"}, "deletionTimestamp": "2026-11-26T12:10:00Z", "finalizers": ["nvidia.com/finalizer"],
  "ownerReferences": [{"kind": "Job", "name": "x-client", "uid": "0123456789"}]}}`

// Only what goes with the run is being deleted with it.
//
// covers: P-18
func TestRemains(t *testing.T) {
	l := leftBehind(t, "", ownDeployment, ownPod)
	states, err := l.States(t.Context(), []string{leftID})
	require.NoError(t, err)
	require.Equal(t, run.Forgotten, states[leftID].Note, "what somebody gave the label stays")
	require.NoError(t, l.clean(t.Context()))

	l = leftBehind(t, "", ownDeployment, ownPod, lingeringGraph)
	states, err = l.States(t.Context(), []string{leftID})
	require.NoError(t, err)
	require.Equal(t, run.Ending, states[leftID].Note)
	require.Contains(t, states[leftID].Reason, "dynamographdeployment x, which waits for its finalizer nvidia.com/finalizer")
	require.NotContains(t, states[leftID].Reason, "mine")
	clock := time.Now()
	k := kube.New(l.env, func() time.Time { clock = clock.Add(time.Minute); return clock })
	l.Kube = k
	err = l.clean(t.Context())
	require.ErrorContains(t, err, "after 1m30s there is still dynamographdeployment x, which waits for its finalizer")
	require.NoFileExists(t, filepath.Join(l.dir, kube.CleanFile))
}

// An error begins with its cause, without kubectl's own log.
func TestErrorsInPlainWords(t *testing.T) {
	const said = `echo 'E1126 12:00:00.123456    4242 memcache.go:265] "Unhandled Error" err="x"' >&2
		echo 'Unable to connect to the server: dial tcp: no such host' >&2; exit 1;;`
	l := leftBehind(t, `*) `+said)
	states, err := l.States(t.Context(), []string{leftID})
	require.NoError(t, err)
	require.Equal(t, "the cluster does not answer: Unable to connect to the server: dial tcp: no such host; check the network and the kubeconfig, then repeat the command",
		states[leftID].Reason)
	for _, err := range []error{l.fetch(run.Succeeded), l.Cancel(t.Context(), leftID), l.clean(t.Context())} {
		require.ErrorContains(t, err, "the cluster does not answer: Unable to connect")
		require.NotContains(t, err.Error(), "--namespace")
		require.NotContains(t, err.Error(), "memcache")
	}
	_, _, err = l.FindJob(t.Context(), l.plan.Job.Name, time.Now())
	require.ErrorContains(t, err, "the cluster does not answer: Unable to connect")
	l = leftBehind(t, `*) exit 3;;`)
	require.ErrorContains(t, l.fetch(run.Succeeded), "exit status 3 (kubectl --")
}

// A folder of the run that leads elsewhere is not followed.
func TestFolderIsALink(t *testing.T) {
	l := leftBehind(t, "", leftJob, leftPod)
	away := t.TempDir()
	require.NoError(t, os.Symlink(away, filepath.Join(l.dir, run.KubeDir)))
	for _, err := range []error{l.fetch(run.Succeeded), l.Cancel(t.Context(), leftID), l.clean(t.Context())} {
		require.ErrorContains(t, err, "kubernetes is not a folder")
	}
	entries, err := os.ReadDir(away)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// A file that says where a run lives, and is none, is named by every command.
func TestClusterFileIsDamaged(t *testing.T) {
	dir, p := planned(t)
	file := filepath.Join(dir, run.ClusterFile)
	require.NoError(t, os.WriteFile(file, []byte("garbage"), 0o644))
	k := kube.New(nil, time.Now)
	require.ErrorContains(t, k.Know(dir, p, leftID), file)
	states, err := k.States(t.Context(), []string{leftID})
	require.NoError(t, err)
	require.Contains(t, states[leftID].Reason, file)
	require.ErrorContains(t, k.Cancel(t.Context(), leftID), file)
}

// Whether something takes too long is a matter of the server's clock.
//
// covers: P-18
func TestClockOfTheServer(t *testing.T) {
	server := time.Date(2026, 11, 26, 12, 0, 30, 0, time.UTC)
	active := strings.Replace(leftJob, `"conditions": [{"type": "Complete", "status": "True"}], `, "", 1)
	graph := `{"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": {"name": "x", "namespace": "bench",
		"uid": "8", "labels": {"profllm.io/run": "x-id"}, "creationTimestamp": "2026-11-26T12:00:00Z"}}`
	for _, c := range []struct {
		ahead  time.Duration // of this machine
		passed time.Duration // on the server
		never  bool
	}{
		{time.Hour, 0, false}, {-time.Hour, 0, false}, {-time.Hour, 10 * time.Minute, true}, {0, 10 * time.Minute, true},
	} {
		now := server.Add(c.passed)
		l := leftBehind(t, `*" --raw /version"*) printf '\tContent-Type: x\n\tDate: `+now.Format("Mon, 02 Jan 2006 15:04:05 GMT")+`\n' >&2;;`,
			active, graph)
		k := kube.New(l.env, func() time.Time { return now.Add(c.ahead) })
		require.NoError(t, k.Know(l.dir, l.plan, leftID))
		states, err := k.States(t.Context(), []string{leftID})
		require.NoError(t, err)
		require.Equal(t, run.Queued, states[leftID].State)
		require.Equal(t, c.never, states[leftID].Note == run.NeverStarts, "%+v: %s", c, states[leftID].Reason)
	}
}

// Nobody sees the end of a run before it is judged.
func TestFetchIsJudged(t *testing.T) {
	l := leftBehind(t, "", leftJob, leftPod)
	st := run.State{JobID: leftID, State: run.Succeeded}
	other := make(chan error, 1)
	l.Judge = func(dir string, of run.State) error {
		require.Equal(t, l.dir, dir)
		require.Equal(t, st, of)
		require.NotNil(t, l.end())
		other <- l.clean(canceled(t))
		return nil
	}
	fetched, err := l.Fetch(t.Context(), leftID, st)
	require.NoError(t, err)
	require.True(t, fetched)
	require.ErrorIs(t, <-other, context.Canceled, "the run is locked")
	require.NotContains(t, l.calls(), "delete")
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
