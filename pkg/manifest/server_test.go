package manifest_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A real API server with Dynamo's definitions takes every manifest, in the version of the API that it
// serves: names, types and their own rules are checked there, and a key that is misspelt is an error.
//
// covers: P-18
func TestKubeTakesManifests(t *testing.T) {
	kubeconfig := os.Getenv("PROFLLM_KUBECONFIG")
	if kubeconfig == "" {
		t.Skip("PROFLLM_KUBECONFIG names no kubeconfig of a cluster (make test-kube)")
	}
	kubectl := func(in []byte, args ...string) (string, error) {
		cmd := exec.Command("kubectl", append([]string{"--kubeconfig", kubeconfig}, args...)...)
		cmd.Stdin = bytes.NewReader(in)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	served, err := kubectl(nil, "get", "crd", "dynamographdeployments.nvidia.com",
		"--output=jsonpath={.spec.versions[?(@.served==true)].name}")
	require.NoError(t, err, served)
	taken := 0
	for name := range goldens {
		text := strings.ReplaceAll(string(read(t, name+".golden.yaml")), "namespace: bench", "namespace: default")
		// where v1beta1 is served, v1alpha1 needs the operator's webhook
		if strings.Contains(text, "nvidia.com/v1alpha1") && strings.Contains(served, "v1beta1") ||
			strings.Contains(text, "nvidia.com/v1beta1") && !strings.Contains(served, "v1beta1") {
			continue
		}
		taken++
		out, err := kubectl([]byte(text), "apply", "--dry-run=server", "--validate=strict", "-f", "-")
		require.NoError(t, err, "%s: %s", name, out)
		require.Equal(t, strings.Count(text, "\n---\n"), strings.Count(out, "created (server dry run)"), out)

		spoilt := strings.Replace(text, "activeDeadlineSeconds:", "activeDeadlineSecond:", 1)
		out, err = kubectl([]byte(spoilt), "apply", "--dry-run=server", "--validate=strict", "-f", "-")
		require.Error(t, err, "the server looks at every key: %s", out)
	}
	require.GreaterOrEqual(t, taken, 3)
}
