package kube_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/kube"
)

const graphOf = `{"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": {"name": "x", "namespace": "bench",
  "uid": "GRAPH", "labels": {"profllm.io/run": "x-id"}, "ownerReferences": [{"kind": "Job", "name": "x-client", "uid": "JOB"}]}}`

const podOfGraph = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x-worker", "namespace": "bench", "uid": "6",
  "labels": {"profllm.io/run": "x-id"}, "ownerReferences": [{"kind": "ReplicaSet", "name": "x-worker-77", "uid": "7"}]}}`

func graph(uid, job string) string {
	return strings.NewReplacer("GRAPH", uid, "JOB", job).Replace(graphOf)
}

// What has the run's label and names, and is somebody else's, is neither deleted nor waited for.
//
// covers: P-18
func TestCleanLeavesOthers(t *testing.T) {
	theirs := strings.ReplaceAll(leftJob, "0123456789", "aaaaaaaaaa")
	for name, objects := range map[string][]string{
		"all made anew":    {theirs, graph("8", "aaaaaaaaaa"), podOfGraph},
		"without an owner": {strings.Replace(graph("8", ""), `"ownerReferences"`, `"other"`, 1), podOfGraph},
	} {
		l := leftBehind(t, `*" delete "*) touch deleted;;`, objects...)
		states, err := l.States(t.Context(), []string{leftID})
		require.NoError(t, err)
		require.Equal(t, run.Forgotten, states[leftID].Note, name)
		left, err := l.Clean(t.Context(), l.dir, l.plan, leftID)
		require.NoError(t, err, name)
		require.Contains(t, left, "dynamographdeployment x", name)
		require.NoError(t, l.Cancel(t.Context(), leftID))
		require.NoFileExists(t, filepath.Join(l.at, "deleted"), name)
		require.True(t, kube.IsClean(l.dir, "x-id", leftID))
		require.False(t, kube.IsClean(l.dir, "x-id", "kube-bench.x-client.aaaaaaaa"), "a later attempt is another one")
		require.False(t, kube.IsClean(l.dir, "x-id", ""))
	}
}

// The API server compares the uid of what it deletes, so that an object that took the name meanwhile
// stays.
//
// covers: P-18
func TestDeletesByUID(t *testing.T) {
	theirs := strings.ReplaceAll(leftJob, "0123456789", "aaaaaaaaaa")
	l := leftBehind(t, `*" delete "*) cat >>bodies; echo '{"kind": "List", "items": [`+oneLine(theirs)+`]}' >objects
		echo 'Error from server (Conflict): Operation cannot be fulfilled: the UID in the precondition does not match' >&2; exit 1;;`,
		leftJob, graph("8", "0123456789"))
	left, err := l.Clean(t.Context(), l.dir, l.plan, leftID)
	require.NoError(t, err)
	require.Equal(t, []string{"job x-client"}, left)
	require.Contains(t, l.calls(), "delete --raw /apis/batch/v1/namespaces/bench/jobs/x-client --filename=-")
	require.Contains(t, l.calls(), "delete --raw /apis/nvidia.com/v1beta1/namespaces/bench/dynamographdeployments/x --filename=-")
	require.Contains(t, read(t, l.at, "bodies"), `"preconditions":{"uid":"0123456789"}`)
	require.Contains(t, read(t, l.at, "bodies"), `"preconditions":{"uid":"8"}`)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// A run that has ended by itself is judged when it is cancelled.
func TestCancelJudges(t *testing.T) {
	l := leftBehind(t, `*" delete "*) touch deleted;;`, leftJob, leftPod)
	judged := 0
	l.Judge = func(string, run.State) error {
		judged++
		require.NoFileExists(t, filepath.Join(l.at, "deleted"))
		return nil
	}
	require.NoError(t, l.Cancel(t.Context(), leftID))
	require.FileExists(t, filepath.Join(l.at, "deleted"))
	require.Equal(t, 1, judged)
}

// Whoever makes the same objects again after a run was lost keeps them, on a real API server too.
//
// covers: P-18
func TestKubeLostAndTaken(t *testing.T) {
	r := lab(t).run("tak")
	id := r.submit()
	r.Kubectl("delete", "job", "tak-client")
	await.True(t, func() bool { return r.left() == "" }, "everything goes with the Job")
	require.Equal(t, run.Forgotten, r.state(id).Note)
	data, err := os.ReadFile(filepath.Join(r.dir, run.ManifestFile))
	require.NoError(t, err)
	r.Apply(string(data))
	require.Equal(t, run.Forgotten, r.state(id).Note)
	had := r.Kubectl("get", "jobs,dynamographdeployments.nvidia.com", "--output=jsonpath={.items[*].metadata.uid}")
	left, err := r.Clean(t.Context(), r.dir, r.plan, id)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"job tak-client", "dynamographdeployment tak"}, left)
	require.NoError(t, r.Cancel(t.Context(), id))
	require.Equal(t, had, r.Kubectl("get", "jobs,dynamographdeployments.nvidia.com", "--output=jsonpath={.items[*].metadata.uid}"))
}

// An attempt after another of the same run has objects of its own, which are deleted in their turn.
func TestKubeCleanTwice(t *testing.T) {
	r := lab(t).run("two")
	first := r.submit()
	r.clean(first)
	require.Empty(t, r.left())
	second := r.submit()
	require.NotEqual(t, first, second)
	r.clean(second)
	require.Empty(t, r.left())
}
