package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/sim/knobs"
)

// Each fault of the wire spoils the answers of its share of the requests in its own way, and
// leaves the rest alone.
func TestAnswerFaults(t *testing.T) {
	const whole = "data: [DONE]\n\n"
	for faults, c := range map[string]struct {
		broken      bool // the connection ends early
		has, hasNot string
	}{
		"drop=1":        {broken: true, hasNot: "data: "},
		"cut=1":         {broken: true, has: "data: ", hasNot: whole},
		"error-event=1": {has: `"type":"InternalServerError","param":null,"code":500}}`, hasNot: `"finish_reason":"length"`},
		"error-usage=1": {has: `"code":500},"choices":[],"usage":{"prompt_tokens":8,`, hasNot: `"finish_reason":"length"`},
		"garbage=1":     {has: "data: upstream connect error or disconnect/reset before headers\n\ndata: {"},
		"html=1":        {has: "<html>", hasNot: "data: "},
		"short=1":       {has: `"completion_tokens":1}`},
		"usage=0.5":     {has: `"completion_tokens":3}`},
		"finish=abort":  {has: `"finish_reason":"abort"`, hasNot: `"finish_reason":"length"`},
		"no-usage":      {has: `"usage":null`, hasNot: "completion_tokens"},
		"no-done":       {has: `"completion_tokens":6}`, hasNot: whole},
		"cut=0,usage=1": {has: `"completion_tokens":6}`},
	} {
		t.Run(faults, func(t *testing.T) {
			_, url := serveCommand(t, faulty("*:"+faults))
			status, body, err := post(t.Context(), url+"/v1/completions", helloStream)
			if c.broken {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
				require.Equal(t, 200, status)
			}
			require.Contains(t, body, c.has)
			if c.hasNot != "" {
				require.NotContains(t, body, c.hasNot)
			}
		})
	}
}

func TestAnswerFaultMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"*:drop=2": "from 0 to 1", "*:usage=0": "want a factor", "*:usage=x": "want a factor", "*:finish": "finish wants a value", "*:no-done=1": "takes no value",
	} {
		_, err := knobs.ParseFaults(text, "serve", true)
		require.ErrorContains(t, err, want, text)
	}
}
