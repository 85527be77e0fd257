package job

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

// What an engine says of itself is kept, and no more than that.
//
// covers: PL-V25
func TestIdentity(t *testing.T) {
	for name, c := range map[string]struct {
		pages map[string]string
		want  *Identity
	}{
		"vllm": {map[string]string{
			"/v1/models": `{"object": "list", "data": [{"id": "a", "root": "org/m", "owned_by": "vllm"}, {"id": "lora", "root": "/l", "parent": "a"}]}`,
			"/version":   `{"version": "0.32.0"}`,
		}, &Identity{Models: []ServedModel{{"a", "org/m", "vllm"}, {"lora", "/l", ""}}, Version: "0.32.0"}},
		"sglang": {map[string]string{
			"/v1/models":   `{"data": [{"id": "a", "root": "a"}]}`,
			"/server_info": `{"model_path": "org/m", "api_key": "hidden", "version": "0.5.5"}`,
		}, &Identity{Models: []ServedModel{{ID: "a", Root: "a"}}, ModelPath: "org/m", Version: "0.5.5"}},
		"no version": {map[string]string{"/v1/models": `{"data": []}`, "/version": `not JSON`}, &Identity{Models: []ServedModel{}}},
		"nothing":    {},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t)
			j.serve(t, map[string]http.HandlerFunc{
				"serve": func(w http.ResponseWriter, r *http.Request) {
					if page, ok := c.pages[r.URL.Path]; ok {
						io.WriteString(w, page)
					} else if r.URL.Path != "/health" {
						http.NotFound(w, r)
					}
				},
				"proxy": answer,
			})
			serve, _ := startProcess(t, "serve", "sleep", "7200")
			require.NoError(t, j.Wait(t.Context(), []Process{serve}))
			if c.want == nil {
				require.NoFileExists(t, j.path(run.RawDir, IdentityFile("serve")))
				return
			}
			var got Identity
			require.NoError(t, run.ReadJSON(j.path(run.RawDir, IdentityFile("serve")), &got))
			require.Equal(t, *c.want, got)
			require.NotContains(t, readFile(t, j.path(run.RawDir, IdentityFile("serve"))), "hidden")
		})
	}
}

// The environment's proxy is for the outside: it must not be asked for a node.
//
// covers: PL-G8
func TestNoProxyInBetween(t *testing.T) {
	require.Nil(t, client(0).Transport.(*http.Transport).Proxy)
}
