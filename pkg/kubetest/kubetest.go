// Package kubetest gives tests a namespace of their own in a real cluster of Kubernetes, and plays there
// what a cluster without containers has not: Dynamo's operator, and what containers print.
package kubetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// KubeconfigVar names the kubeconfig of the cluster for tests; .ci/test-kube sets it.
const KubeconfigVar = "PROFLLM_KUBECONFIG"

// Cluster is a namespace of a cluster.
type Cluster struct {
	Kubeconfig string
	Namespace  string

	t testing.TB
}

// New makes a namespace, which goes with the test. Without a cluster, the test is skipped, unless
// PROFLLM_REQUIRE_KUBE is set.
func New(t testing.TB, environ []string) *Cluster {
	t.Helper()
	file, required := "", false
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, KubeconfigVar+"="); ok {
			file = v
		}
		required = required || kv == "PROFLLM_REQUIRE_KUBE=1"
	}
	if file == "" {
		why := "no cluster: " + KubeconfigVar + " is not set (make test-kube)"
		if required {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	c := &Cluster{Kubeconfig: file, Namespace: fmt.Sprintf("profllm-%x", time.Now().UnixNano()), t: t}
	c.Kubectl("create", "namespace", c.Namespace)
	t.Cleanup(func() {
		if _, err := c.Try(context.Background(), "", "delete", "namespace", c.Namespace, "--wait=false"); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Try runs kubectl in the namespace.
func (c *Cluster) Try(ctx context.Context, stdin string, args ...string) (string, error) {
	args = append([]string{"--kubeconfig=" + c.Kubeconfig, "--namespace=" + c.Namespace}, args...)
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

// Kubectl runs kubectl in the namespace, and fails the test with it.
func (c *Cluster) Kubectl(args ...string) string {
	c.t.Helper()
	out, err := c.Try(c.t.Context(), "", args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// Apply makes objects.
func (c *Cluster) Apply(manifest string) {
	c.t.Helper()
	if _, err := c.Try(c.t.Context(), manifest, "apply", "--filename=-"); err != nil {
		c.t.Fatal(err)
	}
}

// Left lists what runs of profllm have in the namespace, besides what is being deleted with its owner.
func (c *Cluster) Left(selector string) string {
	c.t.Helper()
	return c.Kubectl("get", "all,dynamographdeployments.nvidia.com,secrets,configmaps,persistentvolumeclaims",
		"--selector="+selector, "--output=name")
}

// graphs is the resource of Dynamo's operator.
const graphs = "dynamographdeployments.nvidia.com"

// Operator writes the status of a graph, in the shape in which Dynamo's operator does.
func (c *Cluster) Operator(graph, state, ready, reason, message string, generation int) {
	c.t.Helper()
	patch := fmt.Sprintf(`{"status":{"state":%q,"observedGeneration":%d,"conditions":[{"type":"Ready","status":%q,"reason":%q,"message":%q,"observedGeneration":%[2]d,"lastTransitionTime":%[6]q}]}}`,
		state, generation, ready, reason, message, time.Now().UTC().Format(time.RFC3339))
	c.Kubectl("patch", graphs, graph, "--subresource=status", "--type=merge", "--patch="+patch)
}

// Ready has a graph be ready.
func (c *Cluster) Ready(graph string) {
	c.t.Helper()
	c.Operator(graph, "successful", "True", "all_resources_are_ready", "All resources are ready", 1)
}

// Pod makes a pod of a graph's component, as the operator does through its Deployments.
func (c *Cluster) Pod(graph, component, spec string, annotations ...string) {
	c.t.Helper()
	uid := c.Kubectl("get", graphs, graph, "--output=jsonpath={.metadata.uid}")
	run := c.Kubectl("get", graphs, graph, `--output=jsonpath={.metadata.labels.profllm\.io/run}`)
	c.Apply(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s-%s
  ownerReferences: [{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, name: %[1]s, uid: %[3]s}]
  labels: {profllm.io/run: %[4]s, nvidia.com/dynamo-component: %[2]s}
  annotations: {%[5]s}
spec: %[6]s
`, graph, component, uid, run, strings.Join(annotations, ", "), spec))
}

// Says gives a pod a log of its own, a line a second. It needs KWOK.
func (c *Cluster) Says(pod, text string) {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), pod+".log")
	var lines strings.Builder
	at := time.Now().UTC()
	for line := range strings.Lines(text) {
		fmt.Fprintf(&lines, "%s stdout F %s\n", at.Format("2006-01-02T15:04:05.000000000Z"), strings.TrimSuffix(line, "\n"))
		at = at.Add(time.Second)
	}
	if err := os.WriteFile(file, []byte(lines.String()), 0o644); err != nil {
		c.t.Fatal(err)
	}
	c.Apply(fmt.Sprintf(`apiVersion: kwok.x-k8s.io/v1alpha1
kind: Logs
metadata: {name: %q}
spec: {logs: [{logsFile: %q, previousLogsFile: %[2]q, follow: false}]}
`, pod, file))
}

// Entry is a file of an archive of results; Kind is of archive/tar, 0 for a regular file.
type Entry struct {
	Name, Text string
	Kind       byte
}

// Packed is an archive of results.
func Packed(entries ...Entry) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	var errs []error
	for _, e := range entries {
		if e.Kind == 0 {
			e.Kind = tar.TypeReg
		}
		h := &tar.Header{Name: e.Name, Typeflag: e.Kind, Mode: 0o644, Size: int64(len(e.Text)), ModTime: time.Unix(1e9, 0)}
		if e.Kind != tar.TypeReg {
			h.Size, h.Linkname = 0, e.Text
		}
		errs = append(errs, w.WriteHeader(h))
		if e.Kind == tar.TypeReg {
			_, err := w.Write([]byte(e.Text))
			errs = append(errs, err)
		}
	}
	if err := errors.Join(append(errs, w.Close(), z.Close())...); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// Printed is an archive as the Job prints it.
func Printed(data []byte) string {
	sum := sha256.Sum256(data)
	text := base64.StdEncoding.EncodeToString(data)
	var b strings.Builder
	fmt.Fprintf(&b, "profllm: archive %d sha256:%s\n", len(data), hex.EncodeToString(sum[:]))
	for len(text) > 76 {
		b.WriteString(text[:76] + "\n")
		text = text[76:]
	}
	return b.String() + text + "\nprofllm: archive ends\n"
}
