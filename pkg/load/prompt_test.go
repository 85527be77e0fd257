package load

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load/answer/answertest"
	"github.com/profllm/profllm/pkg/load/loadtest"
)

// The result says what was sent, and who turned text into tokens or back.
func TestKindsOfPrompts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`{"prompt":"w1 w2","messages":[{"role":"user","content":"w1 w2"}]}`),
		0o600))
	custom := " --dataset-name custom --custom-output-len 3 --dataset-path " + file
	for name, tt := range map[string]struct {
		tokenizer   bool
		flags, want string
	}{
		"drawn ids":               {true, "", `{"kind":"token_ids","tokenizer":"none"}`},
		"drawn chats":             {true, "--backend openai-chat", `{"kind":"messages","tokenizer":"server"}`},
		"drawn chats in words":    {false, "--backend openai-chat", `{"kind":"messages","tokenizer":"none","plain_words":true}`},
		"a file, as it is":        {true, "--skip-chat-template" + custom, `{"kind":"text","tokenizer":"none"}`},
		"a file, as chats":        {false, "--backend openai-chat" + custom, `{"kind":"messages","tokenizer":"none"}`},
		"a file, in the template": {true, custom, `{"kind":"token_ids","tokenizer":"server"}`},
		"drawn conversations":     {true, "--backend openai-chat --conversation-turn-mean 2", `{"kind":"messages","tokenizer":"server"}`},
		"conversations in words": {false, "--backend openai-chat --conversation-turn-mean 2",
			`{"kind":"messages","tokenizer":"none","plain_words":true}`},
		"batches of drawn ids": {true, "--backend openai-embeddings --random-batch-size 2", `{"kind":"token_ids","tokenizer":"none"}`},
		"queries and documents": {true, "--backend vllm-rerank --dataset-name random-rerank --random-input-len 40 --random-batch-size 2",
			`{"kind":"text","tokenizer":"none","plain_words":true}`},
		"pictures": {true, "--backend openai-chat --dataset-name random-mm --random-mm-bucket-config {(8,8,1):1}",
			`{"kind":"messages","tokenizer":"server","pictures":4}`},
		"pictures and words": {false, "--backend openai-chat --dataset-name random-mm --random-mm-bucket-config {(8,8,1):1}",
			`{"kind":"messages","tokenizer":"none","plain_words":true,"pictures":4}`},
		"recorded conversations": {true, "--backend openai-chat --conversation-file " + file, `{"kind":"messages","tokenizer":"none"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tt.tokenizer {
					_, _ = io.WriteString(w, `{"prompt":"w1 w2","tokens":[1,2]}`)
				} else {
					http.NotFound(w, r)
				}
			}))
			defer s.Close()
			o := parse(t, "--model m --num-prompts 4 --random-input-len 2 --base-url "+s.URL+" "+tt.flags)
			require.NoError(t, o.Validate())
			api := newServer(&o)
			b, err := newBodies(t.Context(), &o, model{name: "m"}, api, io.Discard)
			require.NoError(t, err)
			raw, err := json.Marshal(b.prompts())
			require.NoError(t, err)
			require.Equal(t, tt.want, string(raw))
		})
	}
	r, err := Run(t.Context(), against(t, start(t, loadtest.Options{}), ""), time.Now, io.Discard, io.Discard)
	require.NoError(t, err)
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	require.Contains(t, string(raw), `,"prompts":{"kind":"token_ids","tokenizer":"none"},`)
}

func TestVocabularySize(t *testing.T) {
	tests := map[string]struct {
		config string
		want   int
	}{
		"plain":      {`{"vocab_size": 32000}`, 32000},
		"multimodal": {`{"text_config": {"vocab_size": 262208}}`, 262208},
		"not there":  {`{}`, 0},
		"negative":   {`{"vocab_size": -4}`, 0},
		"no JSON":    {`vocab`, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(tt.config), 0o600))
			require.Equal(t, tt.want, vocabulary(dir))
		})
	}
	require.Zero(t, vocabulary("meta-llama/Llama-3.1-8B"))
}

// Bodies of some MB, as those with pictures are, arrive whole.
func TestPicturesArrive(t *testing.T) {
	onAll(t, func(t *testing.T, run func(context.Context, Options) (*Report, string, error)) {
		s := record(t, answertest.TokenEvent+answertest.LastEvent+answertest.UsageEvent+answertest.DoneEvent)
		r, _, err := run(t.Context(), parse(t, "--model m --backend openai-chat --dataset-name random-mm --num-prompts 3 "+
			"--random-input-len 4 --random-mm-base-items-per-request 16 --random-mm-bucket-config {(400,400,1):1} "+
			"--base-url "+s.URL))
		require.NoError(t, err)
		require.Equal(t, 3, r.Completed)
		require.Equal(t, Prompts{"messages", "none", true, 48}, r.Client.Prompts)
		for _, sent := range s.seen {
			require.Greater(t, len(sent.body), 1<<20)
			var body struct {
				Messages  []struct{ Content []struct{ Type string } }
				IgnoreEOS bool `json:"ignore_eos"`
			}
			require.NoError(t, json.Unmarshal([]byte(sent.body), &body))
			require.Len(t, body.Messages[0].Content, 17)
			require.True(t, body.IgnoreEOS)
		}
	})
}

// A server's tokenizer that was only tried, and used for no prompt, is nobody's in the result.
func TestTokenizerThatWasOnlyTried(t *testing.T) {
	folder, file := t.TempDir(), filepath.Join(t.TempDir(), "p.jsonl")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "tokenizer.json"), []byte(`{"model": {"vocab": {"w0": 0, "w1": 1, "w2": 2}}}`), 0o600))
	require.NoError(t, os.WriteFile(file, []byte(`{"prompt":"w1 w2"}`), 0o600))
	for name, tt := range map[string]struct {
		refused, flags, want string
	}{
		"it cannot encode":    {"/tokenize", "", `{"kind":"token_ids","tokenizer":"none"}`},
		"it cannot decode":    {"/detokenize", "", `{"kind":"token_ids","tokenizer":"none"}`},
		"the very text":       {"", "", `{"kind":"text","tokenizer":"server"}`},
		"a file, as it is":    {"", "--skip-chat-template --dataset-name custom --custom-output-len 3 --dataset-path " + file, `{"kind":"text","tokenizer":"none"}`},
		"chats without words": {"/tokenize", "--backend openai-chat", `{"kind":"messages","tokenizer":"none","plain_words":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == tt.refused {
					http.NotFound(w, r)
					return
				}
				_, _ = io.WriteString(w, `{"prompt":"w1 w2","tokens":[1,2]}`)
			}))
			defer s.Close()
			o := parse(t, "--model m --num-prompts 4 --random-input-len 2 --tokenizer "+folder+" --base-url "+s.URL+" "+tt.flags)
			require.NoError(t, o.Validate())
			b, err := newBodies(t.Context(), &o, model{name: "m"}, newServer(&o), io.Discard)
			require.NoError(t, err)
			raw, err := json.Marshal(b.prompts())
			require.NoError(t, err)
			require.Equal(t, tt.want, string(raw))
		})
	}
}
