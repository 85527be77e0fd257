package job

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// A service that served nothing is asked once more, as its clients did.
//
// covers: PL-F14
func TestAsk(t *testing.T) {
	const refusal = `{"error":{"message":"This model's maximum context length is 2048 tokens.","type":"BadRequestError"}}`
	for name, tt := range map[string]struct {
		before, after string // pages of /metrics; "" for none
		options       []string
		want          bool
		path          string
	}{
		"nothing served":        {"vllm:request_success_total 2\n", "vllm:request_success_total 2\n", nil, true, "/v1/completions"},
		"a chat":                {"vllm:request_success_total 0\n", "vllm:request_success_total 0\n", []string{"--endpoint", "/v1/chat/completions", "--served-model-name=other"}, true, "/v1/chat/completions"},
		"something served":      {"vllm:request_success_total 2\n", "vllm:request_success_total 3\n", nil, false, ""},
		"it does not say":       {"up 1\n", "up 1\n", nil, false, ""},
		"it was never ready":    {"", "vllm:request_success_total 0\n", nil, false, ""},
		"it has died meanwhile": {"vllm:request_success_total 0\n", "", nil, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t)
			var got struct {
				Model, Prompt string
				Messages      []struct{ Content string }
				MaxTokens     int `json:"max_tokens"`
			}
			path := ""
			j.serve(t, map[string]http.HandlerFunc{"proxy": func(w http.ResponseWriter, r *http.Request) {
				path = r.URL.Path
				require.NoError(t, json.NewDecoder(r.Body).Decode(&got))
				w.WriteHeader(http.StatusBadRequest)
				io.WriteString(w, refusal)
			}})
			argv := append(plan.Texts("vllm", "bench", "serve", "--model", "m", "--base-url"),
				plan.Concat("http://", plan.Addr("proxy"), ":", plan.PortNumber("proxy")))
			j.plan.Loads = []plan.Load{{Clients: []plan.Step{{Name: "bench",
				Argv: append(argv, plan.Texts(tt.options...)...)}},
				Expect: plan.Expect{InputTokens: 4, OutputTokens: 7}}}
			j.save(t)
			for when, page := range map[string]string{"before": tt.before, "after": tt.after} {
				if page != "" {
					require.NoError(t, os.WriteFile(j.path("raw", MetricsFile("serve", when)), []byte(page), 0o644))
				}
			}
			j.ask(t.Context())
			require.Equal(t, tt.path, path)
			if !tt.want {
				require.NoFileExists(t, j.path("raw", AnswerFile))
				return
			}
			answer := readFile(t, j.path("raw", AnswerFile))
			require.True(t, strings.HasPrefix(answer, "POST http://127.0.0.1:"))
			require.True(t, strings.HasSuffix(answer, fmt.Sprintf("%s\n400 Bad Request\n%s\n", tt.path, refusal)),
				answer)
			require.Equal(t, 7, got.MaxTokens)
			if len(got.Messages) > 0 {
				require.Equal(t, "other", got.Model)
				require.Equal(t, "hello hello hello hello", got.Messages[0].Content)
				return
			}
			require.Equal(t, "m", got.Model)
			require.Equal(t, "hello hello hello hello", got.Prompt)
		})
	}
}
