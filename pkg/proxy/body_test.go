package proxy

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAppendPrefill(t *testing.T) {
	const kv = `"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}`
	const one = `{"max_tokens":1,"stream":false,` + kv
	for _, c := range []struct {
		name, in string
		chat     bool
		want     string
	}{
		{"empty object", ` {} `, false, one + `}`},
		{"only edited members", `{"stream":true}`, false, one + `}`},
		{"bytes between others are kept", `{ "a" : 1.0 , "b":[ 1, 2] }`, false, one + `,"a" : 1.0 , "b":[ 1, 2]}`},
		{"edited ones go", `{"model":"m","stream":true,"prompt":"p","max_tokens":9,"min_tokens":4,"stream_options":{"include_usage":true},"seed":1}`, false, one + `,"model":"m","prompt":"p","seed":1}`},
		{"chat", `{"messages":[]}`, true, one + `,"max_completion_tokens":1,"messages":[]}`},
		{"max_completion_tokens outside chat", `{"max_completion_tokens":5}`, false, one + `,"max_completion_tokens":1}`},
		{"duplicates", `{"stream":true,"x":1,"stream":false,"x":2,"max_tokens":1,"max_tokens":2}`, false, one + `,"x":1,"x":2}`},
		{"escaped name", `{"str\u0065am":true,"x":1}`, false, one + `,"x":1}`},
		{"names inside values stay", `{"x":{"stream":true},"y":["stream"],"z":"\"stream\":true,"}`, false, one + `,"x":{"stream":true},"y":["stream"],"z":"\"stream\":true,"}`},
		{"client's kv_transfer_params are replaced", `{"kv_transfer_params":{"remote_host":"evil"},"x":1}`, false, one + `,"x":1}`},
		{"unicode and escapes", `{"prompt":"\\\"\u00e9 \ud83d\ude00 é 😀 \\","stream":true}`, false, one + `,"prompt":"\\\"\u00e9 \ud83d\ude00 é 😀 \\"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := scan([]byte(c.in), nil)
			require.NoError(t, err)
			got := o.appendPrefill(nil, c.chat)
			require.Equal(t, c.want, string(got))
			require.True(t, json.Valid(got))
		})
	}
}

func TestAppendDecode(t *testing.T) {
	const in = `{"kv_transfer_params":null, "prompt":"p","stream":true ,"max_tokens":9,"kv_transfer_params":{"a":1}}`
	o, err := scan([]byte(in), nil)
	require.NoError(t, err)
	require.Equal(t, `{"kv_transfer_params":{"n": 12345678901234567890},"prompt":"p","stream":true ,"max_tokens":9}`,
		string(o.appendDecode(nil, []byte(`{"n": 12345678901234567890}`))))
	require.Equal(t, `{"prompt":"p","stream":true ,"max_tokens":9}`, string(o.appendDecode(nil, nil)))
}

func TestScanRefuses(t *testing.T) {
	for _, in := range []string{
		``, ` `, `null`, `[]`, `"x"`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{"a" 1}`,
		`{"a":1}x`, `{"a":1} {}`, `{"a":}`, `{"a":,"b":1}`, `{a:1}`, `{"a":"x}`, `{"a":[1}`, `{"a":"x"y}`,
		`{"stream":tru}`, `{"max_tokens":1.}`, `{"kv_transfer_params":{"a":}}`, `{"\x":1}`, `{"a":1 "b":2}`, `{"a\`,
	} {
		_, err := scan([]byte(in), nil)
		require.Error(t, err, "%s", in)
	}
}

// An object has at most maxMembers members, and the memory of where they lie is bounded with
// them. What lies deeper is not counted.
func TestScanBoundsMembers(t *testing.T) {
	members := strings.Repeat(`"":1,`, maxMembers-1)
	o, err := scan([]byte(`{`+members+`"x":{`+members+members+`"":1}}`), nil)
	require.NoError(t, err)
	require.Len(t, o.members, maxMembers)
	o, err = scan([]byte(`{`+strings.Repeat(members, 100)+`"":1}`), nil)
	require.ErrorIs(t, err, errMembers)
	require.Len(t, o.members, maxMembers)
	require.LessOrEqual(t, cap(o.members), 2*maxMembers)
}

// The proxy and the load client call the same answers errors.
func TestAnswersThatAreErrors(t *testing.T) {
	table, err := os.ReadFile("../load/answer/testdata/errors.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(table)) {
		want, answer, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		o, err := scan([]byte(answer), nil)
		require.NoError(t, err, line)
		require.Equal(t, want == "error", o.failed(), line)
	}
}

// FuzzSplice compares every edit with the same edit of a decoded map, and checks
// that an edit never mends invalid JSON.
func FuzzSplice(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"stream":true,"prompt":"x","max_tokens":3}`, `{"a":[{"b":"\\\""}],"stream":null}`,
		`{"a":1,"a":2,"min_tokens":1,"min_tokens":2}`, ` { "kv_transfer_params" : { "x" : [ ] } } `,
		`{"max\u005ftokens":5,"é":"😀"}`, `{"a":1}}`, `{"a":"\u12"}`, `{"a":nul,"stream":true}`, "{\"a\":\"\xff\"}",
		`{"a":[}],"b":{]}}`, `{"a":1{},"b":2}`,
	} {
		f.Add([]byte(seed), `{"remote_port":5600}`)
	}
	f.Fuzz(func(t *testing.T, text []byte, params string) {
		var members map[string]json.RawMessage
		valid := json.Unmarshal(text, &members) == nil && members != nil
		o, err := scan(text, nil)
		if err == errMembers {
			require.Greater(t, strings.Count(string(text), ":"), maxMembers)
			return
		}
		if err != nil {
			require.False(t, valid, "refused valid JSON: %v", err)
			return
		}
		if !json.Valid([]byte(params)) {
			params = "null"
		}
		for _, edited := range [][]byte{o.appendPrefill(nil, true), o.appendPrefill(nil, false),
			o.appendDecode(nil, []byte(params)), o.appendDecode(nil, nil)} {
			require.Equal(t, valid, json.Valid(edited), "%s\n%s", text, edited)
		}
		if !valid {
			return
		}
		want := decoded(t, text)
		for _, name := range []string{"min_tokens", "stream_options"} {
			delete(want, name)
		}
		want["max_tokens"], want["max_completion_tokens"], want["stream"] = json.Number("1"), json.Number("1"), false
		want["kv_transfer_params"] = map[string]any{"do_remote_decode": true, "do_remote_prefill": false,
			"remote_engine_id": nil, "remote_block_ids": nil, "remote_host": nil, "remote_port": nil}
		require.Equal(t, want, decoded(t, o.appendPrefill(nil, true)))

		want = decoded(t, text)
		want["kv_transfer_params"] = decoded(t, []byte(`{"v":`+params+`}`))["v"]
		require.Equal(t, want, decoded(t, o.appendDecode(nil, []byte(params))))
		delete(want, "kv_transfer_params")
		require.True(t, reflect.DeepEqual(want, decoded(t, o.appendDecode(nil, nil))))
	})
}

func decoded(t *testing.T, text []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	var m map[string]any
	require.NoError(t, d.Decode(&m))
	return m
}

func BenchmarkSplice(b *testing.B) {
	body := []byte(`{"model":"m","prompt":"` + strings.Repeat("some words ",
		12_000) + `","stream":true,"max_tokens":256}`)
	b.SetBytes(int64(len(body)))
	var dst []byte
	var members []member
	for b.Loop() {
		o, err := scan(body, members)
		if err != nil {
			b.Fatal(err)
		}
		members = o.members
		dst = o.appendPrefill(dst[:0], false)
	}
}
