package sim

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestResponses(t *testing.T) {
	_, url := serveCommand(t, map[string]string{"PROFLLM_SIM_TTFT": "1ms", "PROFLLM_SIM_ITL": "1ms"})
	type response struct {
		Status, Object string
		Details        *struct{ Reason string } `json:"incomplete_details"`
		Output         []struct{ Content []struct{ Text, Type string } }
		Usage          *struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
			Total  int `json:"total_tokens"`
		}
	}
	const body = `{"input":"hello there","max_output_tokens":4,"ignore_eos":true,"store":false`
	whole := ask[response](t, url+"/v1/responses", body+"}")
	require.Equal(t, "incomplete", whole.Status)
	require.Equal(t, "max_output_tokens", whole.Details.Reason)
	require.Equal(t, 4, whole.Usage.Output)
	require.Equal(t, whole.Usage.Total, whole.Usage.Input+4)

	resp, err := http.Post(url+"/v1/responses", "application/json", strings.NewReader(body+`,"stream":true}`))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	var kinds []string
	text := ""
	var last response
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		name, ok := strings.CutPrefix(in.Text(), "event: ")
		if ok {
			kinds = append(kinds, strings.TrimPrefix(name, "response."))
		}
		payload, ok := strings.CutPrefix(in.Text(), "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type, Delta string
			Sequence    int `json:"sequence_number"`
			Response    *response
		}
		require.NoError(t, json.Unmarshal([]byte(payload), &e))
		require.Equal(t, "response."+kinds[len(kinds)-1], e.Type)
		require.Equal(t, len(kinds)-1, e.Sequence)
		if text += e.Delta; e.Response != nil {
			last = *e.Response
		}
	}
	require.Equal(t, []string{"created", "in_progress", "output_text.delta", "output_text.delta", "output_text.delta",
		"output_text.delta", "output_text.done", "completed"}, kinds)
	require.Equal(t, whole.Output, last.Output, "the same prompt has the same answer")
	require.Equal(t, text, last.Output[0].Content[0].Text)
	require.Equal(t, whole.Usage, last.Usage)

	chat := ask[response](t, url+"/v1/responses", `{"input":[{"role":"user","content":"hello there"}],"max_output_tokens":4,"ignore_eos":true}`)
	require.Equal(t, whole.Output, chat.Output, "a text is a message of a user")
}
