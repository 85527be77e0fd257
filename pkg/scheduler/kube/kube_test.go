package kube_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/kube"
)

// Submission makes each object once, however often it is repeated, and the Job owns the others.
//
// covers: P-18
func TestKubeSubmit(t *testing.T) {
	r := lab(t).run("sub")
	id := r.submit()
	require.Regexp(t, `^kube-profllm-[0-9a-f]+\.sub-client\.[0-9a-f]{8}$`, id)
	require.Equal(t, id, r.submit(), "twice is once")
	owner := r.Kubectl("get", "dynamographdeployments.nvidia.com", "sub", "--output=jsonpath={.metadata.ownerReferences[0].name}")
	require.Equal(t, "sub-client", owner)
	var where map[string]any
	require.NoError(t, run.ReadJSON(filepath.Join(r.dir, run.ClusterFile), &where))
	require.Equal(t, "kube-lab", where["context"], "a later change of the current context changes nothing")

	found, ok, err := r.FindJob(t.Context(), r.plan.Job.Name, time.Now())
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, id, found)
	_, ok, err = r.FindJob(t.Context(), r.plan.Job.Name, time.Now(), id)
	require.NoError(t, err)
	require.False(t, ok, "an earlier job is none of it")

	// Whoever deletes the Job deletes the run.
	r.Kubectl("delete", "job", "sub-client")
	await.True(t, func() bool { return r.left() == "" }, "everything goes with the Job")
}

// Several that submit the same run at once make one Job.
func TestKubeSubmitAtOnce(t *testing.T) {
	r := lab(t).run("once")
	ids := make([]string, 4)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			sub, err := r.Submit(t.Context(), r.request())
			if err == nil {
				ids[i] = sub.JobID
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	require.NotEmpty(t, ids[0])
	require.Len(t, strings.Fields(r.Kubectl("get", "jobs", "--output=name")), 1)
}

// What the server refuses makes nothing, and is said in plain words.
func TestKubeRefused(t *testing.T) {
	for name, c := range map[string]struct {
		knob func(string) string
		want string
	}{
		"typo":      {replace("podTemplate:", "podTemplates:"), "unknown field"},
		"enum":      {replace("backendFramework: vllm", "backendFramework: tgi"), "backendFramework"},
		"kind":      {replace("kind: Job", "kind: CronJob"), `kind "CronJob" is none that a run has`},
		"unlabeled": {replace("name: NAME-client\n  labels: {profllm.io/run: RUN}", "name: NAME-client"), "has the label profllm.io/run"},
	} {
		t.Run(name, func(t *testing.T) {
			r := lab(t).run("ref", c.knob)
			_, err := r.Submit(t.Context(), r.request())
			var refused *run.RefusedError
			require.ErrorAs(t, err, &refused)
			require.Contains(t, refused.Reason, c.want)
			require.Empty(t, r.left())
		})
	}
	t.Run("namespace", func(t *testing.T) {
		r := lab(t).run("ref")
		r.plan.Kubernetes.Namespace = "nowhere"
		data, err := r.plan.Encode()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(r.dir, run.PlanFile), data, 0o644))
		_, err = r.Submit(t.Context(), r.request())
		require.ErrorContains(t, err, "there is no namespace nowhere")
		require.ErrorContains(t, err, "hint: kubectl create namespace nowhere")
	})
	t.Run("taken", func(t *testing.T) {
		c := lab(t)
		c.Apply(strings.NewReplacer("NAME", "ref", "RUN", "other").Replace(manifest))
		r := c.run("ref")
		_, err := r.Submit(t.Context(), r.request())
		var refused *run.RefusedError
		require.ErrorAs(t, err, &refused)
		require.Contains(t, refused.Reason, "not of this run")
		require.Len(t, strings.Fields(c.Kubectl("get", "jobs", "--output=name")), 1, "what is another's stays")
	})
	t.Run("unreachable", func(t *testing.T) {
		r := lab(t).run("ref")
		file := filepath.Join(t.TempDir(), "config")
		require.NoError(t, os.WriteFile(file, []byte(`apiVersion: v1
kind: Config
current-context: x
clusters: [{name: x, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: x, context: {cluster: x, user: x}}]
users: [{name: x, user: {}}]
`), 0o600))
		r.plan.Kubernetes.Kubeconfig = file
		data, err := r.plan.Encode()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(r.dir, run.PlanFile), data, 0o644))
		_, err = r.Submit(t.Context(), r.request())
		require.True(t, errors.As(err, new(*run.RefusedError)), "nothing was sent yet")
		require.ErrorContains(t, err, "does not answer")
	})
}

// The state of a run on its way to its end.
func TestKubeStates(t *testing.T) {
	r := lab(t).run("st")
	id := r.submit()
	st := r.state(id)
	require.Equal(t, run.Queued, st.State)
	require.Contains(t, st.Reason, "has not looked at the service yet")
	r.pod("frontend", oneContainer)
	r.pod("decode", oneContainer)
	r.operator("pending", "False", "some_resources_are_not_ready", "Resources not ready: st-decode", 1)
	st = r.state(id)
	require.Equal(t, run.Queued, st.State)
	r.operator("successful", "True", "all_resources_are_ready", "All resources are ready", 0)
	require.Equal(t, run.Queued, r.state(id).State, "ready, but of an older generation")
	r.isReady()
	st = r.until(id, func(st run.State) bool { return st.State == run.Running }, "the run is under way")
	require.NotEmpty(t, st.NodeList)
	require.NotEmpty(t, st.Start)

	require.NoError(t, r.Cancel(t.Context(), id))
	st = r.until(id, run.State.Final, "the run is cancelled")
	require.Equal(t, run.Cancelled, st.State)
	require.Empty(t, r.left())
	require.FileExists(t, filepath.Join(r.dir, "logs/decode-0.log"), "logs go with the pods")
	other := r.run("other")
	require.Equal(t, run.Forgotten, other.state(strings.Replace(id, ".st-", ".other-", 1)).Note)
}

// How a Job ends.
func TestKubeEnds(t *testing.T) {
	for name, c := range map[string]struct {
		notes, state, exit, reason string
		more                       func(string) string
	}{
		"good":     {notes: "kube-lab/done-after: 1s", state: run.Succeeded, exit: "0:0"},
		"fails":    {notes: `kube-lab/mode: fail, kube-lab/exit-code: "3"`, state: run.Failed, exit: "3:0", reason: "exit code 3"},
		"oom":      {notes: `kube-lab/mode: fail, kube-lab/exit-code: "137", kube-lab/reason: OOMKilled`, state: run.OOM, exit: "137:0", reason: "out of memory"},
		"deadline": {notes: "kube-lab/done-after: 1h", state: run.Timeout, reason: "time limit of 2s", more: replace("activeDeadlineSeconds: 3600", "activeDeadlineSeconds: 2")},
	} {
		t.Run(name, func(t *testing.T) {
			knobs := []func(string) string{replace("kube-lab/done-after: 1h", c.notes)}
			if c.more != nil {
				knobs = append(knobs, c.more)
			}
			r := lab(t).run("end", knobs...)
			id := r.submit()
			st := r.until(id, run.State.Final, "the Job ends")
			require.Equal(t, c.state, st.State)
			require.Equal(t, c.exit, st.ExitCode)
			require.Contains(t, st.Reason, c.reason)
		})
	}
}

// What never starts is said early, with the cause and what to do.
func TestKubeNeverStarts(t *testing.T) {
	for name, c := range map[string]struct {
		pod    string
		notes  string
		status string
		want   string
	}{
		"no GPU":  {pod: `{containers: [{name: main, image: "x:1", resources: {limits: {nvidia.com/gpu: 9}}}]}`, want: "asks for 9 of nvidia.com/gpu, and the largest node has 8"},
		"image":   {pod: oneContainer, notes: "kube-lab/mode: imagepull", want: "cannot pull its image dynamo/vllm-runtime:1.6.1 (ImagePullBackOff"},
		"claim":   {pod: `{containers: [{name: main, image: "x:1", volumeMounts: [{name: m, mountPath: /m}]}], volumes: [{name: m, persistentVolumeClaim: {claimName: models}}]}`, want: "needs a volume claim that is not in namespace"},
		"crashes": {pod: oneContainer, notes: "kube-lab/mode: crashloop", want: "restarted 3 times; its last lines: loading | no such model"},
		"gated":   {pod: `{schedulingGates: [{name: x.io/gate}], containers: [{name: main, image: "x:1"}]}`, want: "held by a scheduling gate"},
		"secret":  {pod: oneContainer, notes: "kube-lab/mode: stuck", status: `{"status":{"phase":"Pending","containerStatuses":[{"name":"main","image":"x:1","imageID":"","ready":false,"restartCount":0,"state":{"waiting":{"reason":"CreateContainerConfigError","message":"secret \"hf-token-secret\" not found"}}}]}}`, want: `secret "hf-token-secret" not found; create what is missing`},
	} {
		t.Run(name, func(t *testing.T) {
			r := lab(t).run("nev")
			id := r.submit()
			r.pod("frontend", oneContainer)
			r.operator("pending", "False", "some_resources_are_not_ready", "Resources not ready: nev-decode", 1)
			if name == "crashes" {
				r.Says("nev-decode", "loading\nno such model\n")
			}
			r.pod("decode", c.pod, c.notes)
			if c.status != "" {
				await.True(t, func() bool {
					return strings.Contains(r.Kubectl("get", "pod", "nev-decode", "--output=json"), "ContainerCreating")
				}, "the pod waits")
				r.Kubectl("patch", "pod", "nev-decode", "--subresource=status", "--type=merge", "--patch="+c.status)
			}
			st := r.until(id, func(st run.State) bool { return strings.Contains(st.Reason, c.want) }, c.want)
			require.Equal(t, run.Queued, st.State)
			if name != "gated" { // a gang scheduler may take its time
				require.Equal(t, run.NeverStarts, st.Note)
			}
		})
	}
	for reason, c := range map[string]struct{ state, message, want string }{
		"failed":    {"failed", "no_multinode_orchestrator_available: install Grove or LWS", "neither Grove nor LWS"},
		"reconcile": {"failed", "cluster role \"planner-role\" does not exist", "could not make the service"},
	} {
		t.Run(reason, func(t *testing.T) {
			r := lab(t).run("nev")
			id := r.submit()
			r.operator(c.state, "False", "failed_to_reconcile_the_resources", c.message, 1)
			st := r.state(id)
			require.Contains(t, st.Reason, c.want)
			require.Equal(t, reason == "failed", st.Note == run.NeverStarts, "a reconciliation is repeated for a while")
		})
	}
}

// An operator that is not there says nothing.
func TestKubeWithoutOperator(t *testing.T) {
	r := lab(t).run("op")
	id := r.submit()
	var passed time.Duration
	r.Kube = kube.New(os.Environ(), func() time.Time { return time.Now().Add(time.Hour + passed) })
	require.NotEqual(t, run.NeverStarts, r.state(id).Note, "it may take a moment, whatever the clock is here")
	passed = 5 * time.Minute
	st := r.state(id)
	require.Equal(t, run.NeverStarts, st.Note)
	require.Contains(t, st.Reason, "Dynamo's operator has written no status for ")
}

// A finalizer that nobody removes is explained.
func TestKubeLingers(t *testing.T) {
	r := lab(t).run("fin")
	id := r.submit()
	r.Kubectl("patch", "dynamographdeployments.nvidia.com", "fin", "--type=merge", `--patch={"metadata":{"finalizers":["nvidia.com/finalizer"]}}`)
	require.NoError(t, r.Cancel(t.Context(), id))
	st := r.until(id, func(st run.State) bool { return strings.Contains(st.Reason, "finalizer") }, "the finalizer is named")
	require.Equal(t, run.Running, st.State)
	require.Equal(t, run.Ending, st.Note)
	require.Contains(t, st.Reason, "Dynamo's operator removes that, and does not run")
	r.Kubectl("patch", "dynamographdeployments.nvidia.com", "fin", "--type=merge", `--patch={"metadata":{"finalizers":null}}`)
	require.Equal(t, run.Cancelled, r.until(id, run.State.Final, "all is gone").State)
}
