package kube_test

import (
	"archive/tar"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/kubetest"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/kube"
)

// What the log of the Job and the logs of the service's pods say becomes the files that a job on Slurm
// writes itself.
func TestKubeFetch(t *testing.T) {
	good := []kubetest.Entry{{Name: "raw/", Kind: tar.TypeDir}, {Name: "raw/profile.json", Text: "{}"}, {Name: "logs/bench-0.log", Text: "done\n"}}
	archive := kubetest.Printed(kubetest.Packed(good...))
	const phases = "starting\nprofllm: phase ready exit 0\nprofllm: phase bench exit %d\n"
	for name, c := range map[string]struct {
		log   string
		mode  string // of the pod
		code  int
		fault string
	}{
		"good":     {log: fmt.Sprintf(phases, 0) + archive},
		"phase":    {log: fmt.Sprintf(phases, 7) + archive, mode: `kube-lab/mode: fail, kube-lab/exit-code: "7"`, code: 7},
		"cut":      {log: fmt.Sprintf(phases, 0) + archive[:len(archive)/2], code: run.PhaseFailed, fault: "results-cut: the log is cut within the archive"},
		"rotated":  {log: archive[len(archive)/2:], code: run.PhaseFailed, fault: "results-cut: line"},
		"digest":   {log: fmt.Sprintf(phases, 0) + damaged(archive), code: run.PhaseFailed, fault: "results-damaged"},
		"nothing":  {log: fmt.Sprintf(phases, 0), code: run.PhaseFailed, fault: "results-missing"},
		"escaping": {log: fmt.Sprintf(phases, 0) + kubetest.Printed(kubetest.Packed(kubetest.Entry{Name: "raw/../../x", Text: "x"})), code: run.PhaseFailed, fault: "leads out of the run directory"},
		"link":     {log: fmt.Sprintf(phases, 0) + kubetest.Printed(kubetest.Packed(kubetest.Entry{Name: "raw/x", Text: "/etc/passwd", Kind: tar.TypeSymlink})), code: run.PhaseFailed, fault: "neither a folder nor a regular file"},
		"plan":     {log: fmt.Sprintf(phases, 0) + kubetest.Printed(kubetest.Packed(kubetest.Entry{Name: "plan.json", Text: "{}"})), code: run.PhaseFailed, fault: "is not below raw/ or logs/"},
	} {
		t.Run(name, func(t *testing.T) {
			mode := c.mode
			if mode == "" {
				mode = "kube-lab/done-after: 1s"
			}
			r := lab(t).run("get", replace("kube-lab/done-after: 1h", mode))
			id := r.submit()
			r.pod("frontend", oneContainer)
			r.pod("decode", oneContainer)
			r.isReady()
			r.Says("get-frontend", "serving\n")
			r.Says("get-decode", "loaded\n")
			st := r.until(id, run.State.Final, "the Job has ended")
			pods := strings.TrimSpace(r.Kubectl("get", "pods", "--selector=job-name=get-client", "--output=jsonpath={.items[0].metadata.name}"))
			r.Says(pods, c.log)
			fetched, err := r.Fetch(t.Context(), id, st)
			require.NoError(t, err)
			require.True(t, fetched)

			r.requireFetched(id, c.code, c.fault)
			fetched, err = r.Fetch(t.Context(), id, st)
			require.NoError(t, err)
			require.False(t, fetched, "once")
			left, err := filepath.Glob(filepath.Join(r.dir, ".fetch-*"))
			require.NoError(t, err)
			require.Empty(t, left)
			r.clean(id)
			require.Empty(t, r.left())
		})
	}
}

// requireFetched checks what was fetched of a run.
func (r *oneRun) requireFetched(id string, code int, fault string) {
	r.t.Helper()
	var end run.Sentinel
	require.NoError(r.t, run.ReadJSON(filepath.Join(r.dir, run.SentinelFile), &end))
	require.Equal(r.t, id, end.JobID)
	require.Equal(r.t, code, end.Code)
	require.Equal(r.t, map[bool]int{true: 0, false: code}[code == run.PhaseFailed], end.ScriptCode())
	var done kube.Fetched
	require.NoError(r.t, run.ReadJSON(filepath.Join(r.dir, kube.FetchFile), &done))
	if fault == "" {
		require.Empty(r.t, done.Fault)
		require.Equal(r.t, "{}", read(r.t, r.dir, "raw/profile.json"))
		require.Equal(r.t, "done\n", read(r.t, r.dir, "logs/bench-0.log"))
		events := read(r.t, r.dir, run.EventFile)
		for _, word := range []string{"all-ready", "load-begins", "client-begins", "client-ended"} {
			require.Contains(r.t, events, word)
		}
	} else {
		require.Contains(r.t, done.Fault, fault)
		require.Contains(r.t, read(r.t, r.dir, "logs/fetch-0.log"), fault)
		require.NoFileExists(r.t, filepath.Join(r.dir, "raw/profile.json"))
	}
	require.Equal(r.t, "serving\n", read(r.t, r.dir, "logs/frontend-0.log"))
	require.Equal(r.t, "loaded\n", read(r.t, r.dir, "logs/decode-0.log"))
	require.NotContains(r.t, read(r.t, r.dir, "logs/job.log"), "H4sI", "logs are for people")
	require.Contains(r.t, read(r.t, r.dir, "kubernetes/pods.json"), "get-decode")
	require.Contains(r.t, read(r.t, r.dir, "kubernetes/events.json"), "Scheduled")
	var place run.Placement
	require.NoError(r.t, run.ReadJSON(filepath.Join(r.dir, run.PlacementFile), &place))
	require.Len(r.t, place.Roles["decode"], 1)
	require.NotEmpty(r.t, place.Nodes)
}

// damaged is an archive of which a character is another one.
func damaged(text string) string {
	i := strings.IndexByte(text, '\n') + 30
	return text[:i] + map[bool]string{true: "B", false: "A"}[text[i] == 'A'] + text[i+1:]
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	require.NoError(t, err)
	return string(data)
}
