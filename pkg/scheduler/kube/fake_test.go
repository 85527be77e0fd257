package kube_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/kube"
)

// fake is a kubectl that answers by a script, and writes down how it was called.
func fake(t *testing.T, script string) (env []string, calls func() string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "calls")
	text := "#!/bin/bash\necho \"$*\" >>" + log + "\n" + script + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kubectl"), []byte(text), 0o755))
	return []string{"PATH=" + dir + ":/usr/bin:/bin"}, func() string {
		data, err := os.ReadFile(log)
		require.NoError(t, err)
		return string(data)
	}
}

// planned is a run directory that no cluster knows.
func planned(t *testing.T) (dir string, p *plan.Plan) {
	t.Helper()
	dir = t.TempDir()
	p = &plan.Plan{Schema: plan.Schema, RunID: "x-id", Dir: dir, Job: plan.Job{Name: "s.x-id"},
		Kubernetes: &plan.Kubernetes{Namespace: "bench", Context: "there", Name: "x", Graph: "v1beta1"}}
	data, err := p.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, run.PlanFile), data, 0o644))
	text := strings.NewReplacer("NAME", "x", "RUN", p.RunID).Replace(manifest)
	require.NoError(t, os.WriteFile(filepath.Join(dir, run.ManifestFile), []byte(text), 0o644))
	return dir, p
}

const client = `case "$*" in *version*) echo '{"clientVersion": {"major": "1", "minor": "%s", "gitVersion": "v1.%[1]s.0"}}'; exit;; esac
`

// Before anything is made, every failure is a refusal, in plain words.
func TestRefusedBeforeTheCluster(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"old kubectl": {fmt.Sprintf(client, "19"), "kubectl is v1.19.0, and profllm needs 1.24 or later"},
		"no context": {fmt.Sprintf(client, "36") + `echo 'error: context "there" does not exist' >&2; exit 1`,
			`context "there": error: context "there" does not exist`},
		"no operator": {fmt.Sprintf(client, "36") + `case "$*" in *"config view"*) echo '{}';; *--raw*)
			echo 'Error from server (NotFound): the server could not find the requested resource' >&2; exit 1;; esac`,
			"NVIDIA Dynamo's operator is not installed there"},
		"old operator": {fmt.Sprintf(client, "36") + `case "$*" in *"config view"*) echo '{}';; *--raw*) echo '{"versions": [{"version": "v1alpha1"}]}';; esac`,
			"serves DynamoGraphDeployment of v1alpha1, and the plan has v1beta1"},
		"log in": {fmt.Sprintf(client, "36") + `case "$*" in *"config view"*) echo '{}';; *) echo 'error: You must be logged in to the server (Unauthorized)' >&2; exit 1;; esac`,
			"hint: log in to the cluster again"},
		"forbidden": {fmt.Sprintf(client, "36") + `case "$*" in *"config view"*) echo '{}';; *--raw*) echo '{"versions": [{"version": "v1beta1"}]}';;
			*) echo 'Error from server (Forbidden): jobs.batch is forbidden: User "u" cannot list resource "jobs" in API group "batch" in the namespace "bench"' >&2; exit 1;; esac`,
			"this account may not list jobs.batch in namespace bench of context there"},
		"no right to delete": {fmt.Sprintf(client, "36") + `case "$*" in *"config view"*) echo '{}';; *--raw*) echo '{"versions": [{"version": "v1beta1"}]}';;
			*--validate=false*) grep -o '"verb":"[a-z]*"' | while read -r verb; do
				case $verb in *delete*) echo '{"status": {"allowed": false}}';; *) echo '{"status": {"allowed": true}}';; esac; done;; esac`,
			"this account may not delete dynamographdeployments.nvidia.com; delete jobs.batch in namespace bench of context there\n\thint: whoever runs the cluster can allow it: kubectl --namespace=bench create role profllm --verb=delete --resource=dynamographdeployments.nvidia.com,jobs.batch"},
		"quota": {fmt.Sprintf(client, "36") + `case "$*" in *"config view"*) echo '{}';; *--raw*) echo '{"versions": [{"version": "v1beta1"}]}';;
			*--dry-run=server*) echo 'Error from server (Forbidden): error when creating "STDIN": jobs.batch "x-client" is forbidden: exceeded quota: q, requested: count/jobs.batch=1, used: count/jobs.batch=0, limited: count/jobs.batch=0' >&2; exit 1;; esac`,
			"the namespace's quota is used up"},
		"webhook": {fmt.Sprintf(client, "36") + `case "$*" in *"config view"*) echo '{}';; *--raw*) echo '{"versions": [{"version": "v1beta1"}]}';;
			*--dry-run=server*) echo 'Error from server: error when creating "STDIN": admission webhook "validate.kyverno.svc-fail" denied the request: label team is required' >&2; exit 1;; esac`,
			"an admission webhook of the cluster refuses it"},
		"pod security": {fmt.Sprintf(client, "36") + `case "$*" in *"config view"*) echo '{}';; *--raw*) echo '{"versions": [{"version": "v1beta1"}]}';;
			*--dry-run=server*) echo 'Error from server (Forbidden): pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true' >&2; exit 1;; esac`,
			"the namespace's pod security level refuses it"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, p := planned(t)
			env, calls := fake(t, c.script)
			_, err := kube.New(env, time.Now).Submit(t.Context(), run.Request{Script: filepath.Join(dir, run.ManifestFile), Name: p.Job.Name, Dir: dir})
			var refused *run.RefusedError
			require.ErrorAs(t, err, &refused)
			require.Contains(t, refused.Reason, c.want)
			kept := strings.NewReplacer("create --validate=false", "asks about rights", "create --dry-run=server", "tries").Replace(calls())
			require.NotContains(t, kept, "create")
			for line := range strings.Lines(calls()) {
				require.Contains(t, line, "--request-timeout=")
				if !strings.Contains(line, "version --client") {
					require.Contains(t, line, "--context=there")
				}
			}
		})
	}
	dir, p := planned(t)
	_, err := kube.New([]string{"PATH=" + t.TempDir()}, time.Now).Submit(t.Context(), run.Request{Script: filepath.Join(dir, run.ManifestFile), Name: p.Job.Name, Dir: dir})
	require.ErrorContains(t, err, "kubectl is not on the PATH")
	_, err = kube.New(nil, time.Now).Submit(t.Context(), run.Request{Script: filepath.Join(dir, run.ManifestFile), Name: p.Job.Name, Dir: dir, Waits: []string{"afterok:60"}})
	require.ErrorContains(t, err, "Kubernetes orders no Jobs")
}

// A create without an answer leaves open whether there is a Job.
func TestCreateWithoutAnswer(t *testing.T) {
	for _, said := range []string{"Unable to connect to the server: net/http: TLS handshake timeout",
		"Error from server (ServiceUnavailable): the server is currently unable to handle the request",
		"Error from server (Timeout): the server was unable to return a response in the time allotted"} {
		dir, p := planned(t)
		env, _ := fake(t, fmt.Sprintf(client, "36")+`case "$*" in *"config view"*) echo '{}';; *--raw*) echo '{"versions": [{"version": "v1beta1"}]}';;
			*--dry-run=server*) ;; *" create "*) echo '`+said+`' >&2; exit 1;; *" get "*--selector*) echo '{"kind": "List", "items": []}';; esac`)
		_, err := kube.New(env, time.Now).Submit(t.Context(), run.Request{Script: filepath.Join(dir, run.ManifestFile), Name: p.Job.Name, Dir: dir})
		require.Error(t, err)
		var refused *run.RefusedError
		require.NotErrorAs(t, err, &refused)
	}
}

// A cluster that does not answer makes a state unknown, never gone.
func TestStatesWithoutAnswer(t *testing.T) {
	dir, p := planned(t)
	env, calls := fake(t, `echo 'Unable to connect to the server: dial tcp: i/o timeout' >&2; exit 1`)
	k := kube.New(env, time.Now)
	const id = "kube-bench.x-client.01234567"
	require.NoError(t, k.Know(dir, p, id))
	states, err := k.States(t.Context(), []string{id, "kube-bench.y-client.01234567"})
	require.NoError(t, err)
	require.Equal(t, run.Unknown, states[id].State)
	require.Empty(t, states[id].Note, "nobody said that it is gone")
	require.Contains(t, states[id].Reason, "i/o timeout")
	require.Equal(t, run.Unknown, states["kube-bench.y-client.01234567"].State)
	require.Contains(t, calls(), "--namespace=bench")
	require.Equal(t, 1, strings.Count(calls(), "get "))

	for _, nothing := range []string{"true", "echo '{}'", `echo '{"kind": "Status"}'`} {
		env, _ = fake(t, nothing)
		k = kube.New(env, time.Now)
		require.NoError(t, k.Know(dir, p, id))
		states, err = k.States(t.Context(), []string{id})
		require.NoError(t, err)
		require.Equal(t, run.Unknown, states[id].State)
		require.Empty(t, states[id].Note, "%s is no answer", nothing)
	}

	env, _ = fake(t, `echo '{"kind": "List", "items": []}'`)
	k = kube.New(env, time.Now)
	require.NoError(t, k.Know(dir, p, id))
	states, err = k.States(t.Context(), []string{id})
	require.NoError(t, err)
	require.Equal(t, run.Forgotten, states[id].Note)
}
