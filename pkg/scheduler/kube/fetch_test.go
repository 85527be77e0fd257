package kube_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
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

// entry is a file of an archive of results.
type entry struct {
	name, text string
	kind       byte
}

// packed is an archive of results.
func packed(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, e := range entries {
		if e.kind == 0 {
			e.kind = tar.TypeReg
		}
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: 0o644, Size: int64(len(e.text)), ModTime: time.Unix(1e9, 0)}
		if e.kind != tar.TypeReg {
			h.Size, h.Linkname = 0, e.text
		}
		require.NoError(t, w.WriteHeader(h))
		if e.kind == tar.TypeReg {
			_, err := w.Write([]byte(e.text))
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return out.Bytes()
}

// printed is an archive as the Job prints it.
func printed(data []byte) string {
	sum := sha256.Sum256(data)
	text := base64.StdEncoding.EncodeToString(data)
	var b strings.Builder
	fmt.Fprintf(&b, "%s%d sha256:%s\n", plan.ArchiveBegins, len(data), hex.EncodeToString(sum[:]))
	for len(text) > 76 {
		b.WriteString(text[:76] + "\n")
		text = text[76:]
	}
	return b.String() + text + "\n" + plan.ArchiveEnds + "\n"
}

// What the log of the Job and the logs of the service's pods say becomes the files that a job on Slurm
// writes itself.
func TestKubeFetch(t *testing.T) {
	good := []entry{{name: "raw/", kind: tar.TypeDir}, {name: "raw/profile.json", text: "{}"}, {name: "logs/bench-0.log", text: "done\n"}}
	archive := printed(packed(t, good...))
	const phases = "starting\nprofllm: phase ready exit 0\nprofllm: phase bench exit %d\n"
	for name, c := range map[string]struct {
		log   string
		mode  string // of the pod
		code  int
		fault string
	}{
		"good":     {log: fmt.Sprintf(phases, 0) + archive},
		"phase":    {log: fmt.Sprintf(phases, 7) + archive, mode: `kube-lab/mode: fail, kube-lab/exit-code: "7"`, code: run.PhaseFailed},
		"cut":      {log: fmt.Sprintf(phases, 0) + archive[:len(archive)/2], code: run.PhaseFailed, fault: "log-cut: the log is cut within the archive"},
		"rotated":  {log: archive[len(archive)/2:], code: run.PhaseFailed, fault: "log-cut: line"},
		"digest":   {log: fmt.Sprintf(phases, 0) + damaged(archive), code: run.PhaseFailed, fault: "results-damaged"},
		"nothing":  {log: fmt.Sprintf(phases, 0), code: run.PhaseFailed, fault: "results-missing"},
		"escaping": {log: fmt.Sprintf(phases, 0) + printed(packed(t, entry{name: "raw/../../x", text: "x"})), code: run.PhaseFailed, fault: "leads out of the run directory"},
		"link":     {log: fmt.Sprintf(phases, 0) + printed(packed(t, entry{name: "raw/x", text: "/etc/passwd", kind: tar.TypeSymlink})), code: run.PhaseFailed, fault: "neither a folder nor a regular file"},
		"plan":     {log: fmt.Sprintf(phases, 0) + printed(packed(t, entry{name: "plan.json", text: "{}"})), code: run.PhaseFailed, fault: "is not below raw/ or logs/"},
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
			r.saying("get-frontend", "serving\n")
			r.saying("get-decode", "loaded\n")
			st := r.until(id, run.State.Final, "the Job has ended")
			pods := strings.TrimSpace(r.kubectl("get", "pods", "--selector=job-name=get-client", "--output=jsonpath={.items[0].metadata.name}"))
			r.saying(pods, c.log)
			fetched, err := r.Fetch(t.Context(), id, st)
			require.NoError(t, err)
			require.True(t, fetched)

			var end run.Sentinel
			require.NoError(t, run.ReadJSON(filepath.Join(r.dir, run.SentinelFile), &end))
			require.Equal(t, id, end.JobID)
			require.Equal(t, c.code, end.Code)
			require.Zero(t, end.ScriptCode())
			var done kube.Fetched
			require.NoError(t, run.ReadJSON(filepath.Join(r.dir, kube.FetchFile), &done))
			if c.fault == "" {
				require.Empty(t, done.Fault)
				require.Equal(t, "{}", read(t, r.dir, "raw/profile.json"))
				require.Equal(t, "done\n", read(t, r.dir, "logs/bench-0.log"))
				events := read(t, r.dir, run.EventFile)
				for _, word := range []string{"all-ready", "load-begins", "client-begins", "client-ended"} {
					require.Contains(t, events, word)
				}
			} else {
				require.Contains(t, done.Fault, c.fault)
				require.Contains(t, read(t, r.dir, "logs/fetch-0.log"), c.fault)
				require.NoFileExists(t, filepath.Join(r.dir, "raw/profile.json"))
			}
			require.Equal(t, "serving\n", read(t, r.dir, "logs/frontend-0.log"))
			require.Equal(t, "loaded\n", read(t, r.dir, "logs/decode-0.log"))
			require.NotContains(t, read(t, r.dir, "logs/job.log"), "H4sI", "logs are for people")
			require.Contains(t, read(t, r.dir, "kubernetes/pods.json"), "get-decode")
			require.Contains(t, read(t, r.dir, "kubernetes/events.json"), "Scheduled")
			var place run.Placement
			require.NoError(t, run.ReadJSON(filepath.Join(r.dir, run.PlacementFile), &place))
			require.Len(t, place.Nodes, 2)

			fetched, err = r.Fetch(t.Context(), id, st)
			require.NoError(t, err)
			require.False(t, fetched, "once")
			left, err := filepath.Glob(filepath.Join(r.dir, ".fetch-*"))
			require.NoError(t, err)
			require.Empty(t, left)
			require.NoError(t, r.Clean(t.Context(), r.dir, r.plan))
			require.Empty(t, r.left())
		})
	}
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
