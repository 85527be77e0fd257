package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

func TestWordJSON(t *testing.T) {
	for _, c := range []struct {
		name string
		word plan.Word
		json string
		show string
	}{
		{"nothing", nil, `""`, ""},
		{"empty text", plan.Text(""), `""`, ""},
		{"text", plan.Text("a b"), `"a b"`, "a b"},
		{"texts become one", plan.Word{{Text: "a"}, {Text: "b"}}, `"ab"`, "ab"},
		{"hostile text", plan.Text("'\"\n\t$(x)é\x00"), `"'\"\n\t$(x)é\u0000"`, "'\"\n\t$(x)é\x00"},
		{"text that looks like JSON", plan.Text(`[{"addr":"x"}]`), `"[{\"addr\":\"x\"}]"`, `[{"addr":"x"}]`},
		{"address and port", plan.Concat("http://", plan.Addr("prefill"), ":", plan.PortNumber("http")),
			`[{"text":"http://"},{"addr":"prefill"},{"text":":"},{"port":"http"}]`,
			"http://${addr:prefill}:${port:http}"},
		{"empty parts are dropped", plan.Word{{Addr: "a"}, {}}, `[{"addr":"a"}]`, "${addr:a}"},
		{"self", plan.Self(), `[{"self":true}]`, "profllm"},
		{"secret of the shell", plan.Word{{Env: "HF_TOKEN"}}, `[{"env":"HF_TOKEN"}]`, "${env:HF_TOKEN}"},
		{"secret of a file", plan.Word{{File: "/s"}}, `[{"file":"/s"}]`, "${file:/s}"},
		{"shell text", plan.Word{{Shell: "$HOME"}}, `[{"shell":"$HOME"}]`, "$HOME"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data, err := json.Marshal(c.word)
			require.NoError(t, err)
			require.Equal(t, c.json, string(data))
			require.Equal(t, c.show, c.word.String())
			var back plan.Word
			require.NoError(t, json.Unmarshal(data, &back))
			require.Equal(t, c.show, back.String())
			again, err := json.Marshal(back)
			require.NoError(t, err)
			require.Equal(t, c.json, string(again))
		})
	}
}

func TestWordRefusesJSON(t *testing.T) {
	for _, data := range []string{
		`1`, `true`, `{}`, `{"text":"a"}`, `["a"]`, `[{}]`, `[{"txt":"a"}]`, `[{"text":"a","addr":"b"}]`,
		`[{"self":"yes"}]`, `[null]`,
	} {
		var w plan.Word
		require.Error(t, json.Unmarshal([]byte(data), &w), data)
	}
}

func TestLiteral(t *testing.T) {
	s, ok := plan.Concat("a", "", plan.Text("b")).Literal()
	require.True(t, ok)
	require.Equal(t, "ab", s)
	for _, p := range []plan.Part{plan.Addr("a"), plan.PortNumber("p"), {Self: true}, {Env: "E"}, {File: "f"},
		{Shell: "s"}, {Text: "t", Env: "E"}} {
		_, ok := plan.Concat("a", p).Literal()
		require.False(t, ok, "%+v", p)
	}
}

func FuzzWordJSON(f *testing.F) {
	for _, s := range []string{`""`, `null`, `"a\u0000b"`, `[]`, `[{"addr":"prefill"},{"text":":"},{"port":"p"}]`,
		`[{"self":true}]`, `[{"env":"E"}]`, `[{}]`, `"\ud800"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var w plan.Word
		if json.Unmarshal(data, &w) != nil {
			return
		}
		first, err := json.Marshal(w)
		require.NoError(t, err)
		var back plan.Word
		require.NoError(t, json.Unmarshal(first, &back), "%s", first)
		second, err := json.Marshal(back)
		require.NoError(t, err)
		require.Equal(t, string(first), string(second))
		require.Equal(t, w.String(), back.String())
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"schema":"profllm.plan/1"}`))
	f.Add([]byte(`{"schema":"profllm.plan/2"}`))
	f.Add([]byte(`{"schema":"profllm.plan/1","job":{"time_limit_s":1800.5,"grace_s":-1},"env":[{"name":"A","value":[{"file":"f"}]}],` +
		`"roles":[{"name":"serve","gpus":[0],"step":{"argv":["vllm",[{"port":"p"}]]}}],"config":{"server":{"serve":{"a":[1]}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := plan.Decode(data)
		if err != nil {
			return
		}
		require.Equal(t, plan.Schema, p.Schema)
		first, err := p.Encode()
		require.NoError(t, err)
		back, err := plan.Decode(first)
		require.NoError(t, err, "%s", first)
		second, err := back.Encode()
		require.NoError(t, err)
		require.Equal(t, string(first), string(second))
	})
}

func TestDecodeRefuses(t *testing.T) {
	_, err := plan.Decode([]byte(`{"schema":"profllm.plan/99"}`))
	require.EqualError(t, err, `decode plan: the schema is "profllm.plan/99", but this program reads "profllm.plan/2"`)
	_, err = plan.Decode([]byte(`{"schema":`))
	require.ErrorContains(t, err, "decode plan: unexpected end of JSON input")
	_, err = plan.Decode([]byte(`{"schema":"profllm.plan/1","job":{"time_limit_s":"1h"}}`))
	require.Error(t, err)
}
