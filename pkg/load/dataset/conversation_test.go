package dataset

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConversations(t *testing.T) {
	const (
		openai   = `{"id":1,"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":[{"type":"text","text":"c"}]}]}`
		sharegpt = `{"id":"x","conversations":[{"from":"human","value":"é\n"},{"from":"gpt","value":"…"},{"from":"human","value":"more"}]}`
		tools    = `{"messages":[{"role":"user","content":"a"},{"role":"tool","content":"b"}]}`
		answers  = `{"conversations":[{"from":"gpt","value":"hello"}]}`
		silent   = `{"messages":[{"role":"user","content":null}]}`
		mixed    = `{"messages":[{"from":"human","value":"a"}],"conversations":[{"role":"user","content":"b"}]}`
		nulls    = `{"messages":[{"role":"user","content":"hi","from":null,"value":null}]}`
		pictures = `{"image":"x.png","conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]}`
	)
	for name, tt := range map[string]struct {
		text  string
		turns []int
		left  int
	}{
		"lines":            {openai + "\n" + sharegpt + "\n\n", []int{2, 2}, 0},
		"a list":           {" [" + openai + ",\n" + sharegpt + "]\n", []int{2, 2}, 0},
		"on several lines": {strings.ReplaceAll(openai, ",", ",\n") + mixed, []int{2, 2}, 0},
		"unused keys":      {nulls, []int{1}, 0},
		"some left out":    {openai + tools + answers + silent + `{"x":1}`, []int{2}, 4},
		"a system within":  {sharegpt + `{"messages":[{"role":"user","content":"a"},{"role":"system","content":"b"}]}`, []int{2}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			list, left, err := parseConversations("f", strings.NewReader(tt.text))
			require.NoError(t, err)
			require.Equal(t, tt.left, left)
			var turns []int
			for _, c := range list {
				turns = append(turns, len(c.Turns))
			}
			require.Equal(t, tt.turns, turns)
		})
	}
	list, _, err := parseConversations("f", strings.NewReader(openai+sharegpt))
	require.NoError(t, err)
	require.JSONEq(t, `{"role":"system","content":"be brief"}`, string(list[0].System[0]))
	require.JSONEq(t, `{"role":"user","content":[{"type":"text","text":"c"}]}`, string(list[0].Turns[1]),
		"answers are left out")
	require.JSONEq(t, `{"role":"user","content":"é\n"}`, string(list[1].Turns[0]))
	require.JSONEq(t, `{"role":"assistant","content":"<b>\"\\"}`, string(Said("assistant", `<b>"\`)))

	for text, want := range map[string]string{
		"": "f: no conversation", "[]": "f: no conversation", answers: "1 were read",
		openai + "\n[": "f:2: the file is no JSON: column 2: the file ends",
		openai + "\n?": "f:2: the file is no JSON: column 1: text after the end",
		"[" + openai:   "f:1: the file is no JSON list: column", "[" + openai + "}": "expected a comma",
		"7":              "f:1: the conversation is no JSON object",
		`{"messages":7}`: `f:1: "messages" is no list`,
		"\n" + pictures:  "f:2: the entry has a picture",
	} {
		_, _, err := parseConversations("f", strings.NewReader(text))
		require.Error(t, err, text)
		require.Contains(t, err.Error(), want, text)
	}
}

func TestReadConversations(t *testing.T) {
	name := filepath.Join(t.TempDir(), "talks.jsonl")
	_, _, err := ReadConversations(name)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(name, []byte("oh"), 0o644))
	_, _, err = ReadConversations(name)
	require.ErrorContains(t, err, "talks.jsonl:1: the file is no JSON")
}

// FuzzTalks checks that what is read can be sent.
func FuzzTalks(f *testing.F) {
	f.Add(`{"messages":[{"role":"user","content":"a"}]}`)
	f.Add(`[{"conversations":[{"from":"human","value":"b"},{"from":"system","value":[]}]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		list, _, err := parseConversations("f", strings.NewReader(text))
		if err != nil {
			return
		}
		require.NotEmpty(t, list)
		for _, c := range list {
			for _, m := range append(c.System, c.Turns...) {
				require.True(t, json.Valid(m), "%s", m)
			}
		}
	})
}
