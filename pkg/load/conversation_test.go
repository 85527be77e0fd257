package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load/answer/answertest"
	"github.com/profllm/profllm/pkg/load/dataset"
)

// A chatter answers "re: " and the last message. It keeps what it was asked.
type chatter struct {
	*httptest.Server
	fails func(messages []string) bool

	mu     sync.Mutex
	asked  [][]string   // role: content
	limits []tokenLimit // of the same requests
}

// A tokenLimit is how many tokens a request asks for, and whether for no fewer.
type tokenLimit struct {
	Max       int  `json:"max_completion_tokens"`
	IgnoreEOS bool `json:"ignore_eos"`
}

// all returns what it was asked so far.
func (c *chatter) all() [][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asked)
}

func startChatter(t *testing.T) *chatter {
	t.Helper()
	c := &chatter{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var q struct {
			Messages []struct{ Role, Content string }
			tokenLimit
		}
		if json.Unmarshal(raw, &q) != nil || len(q.Messages) == 0 {
			http.NotFound(w, r) // no tokenizer
			return
		}
		var messages []string
		for _, m := range q.Messages {
			messages = append(messages, m.Role+": "+m.Content)
		}
		c.mu.Lock()
		c.asked, c.limits = append(c.asked, messages), append(c.limits, q.tokenLimit)
		c.mu.Unlock()
		if c.fails != nil && c.fails(messages) {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		text, _ := json.Marshal("re: " + q.Messages[len(q.Messages)-1].Content)
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"+
			"data: {\"choices\":[{\"delta\":{\"content\":%s},\"finish_reason\":\"stop\"}]}\n\n"+
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":2}}\n\n%s",
			text, len(messages), answertest.DoneEvent)
	}))
	t.Cleanup(c.Close)
	return c
}

func TestConversationsAreSentTurnByTurn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "talks.jsonl")
	var lines strings.Builder
	for k := range 6 {
		fmt.Fprintf(&lines,
			`{"messages":[{"role":"system","content":"s%d"},{"role":"user","content":"%da"},{"role":"assistant","content":"old"},{"role":"user","content":"%d\"b"},{"role":"user","content":"%dc"}]}`+"\n", k, k, k, k)
	}
	require.NoError(t, os.WriteFile(file, []byte(lines.String()+`{"messages":[]}`), 0o644))
	onAll(t, func(t *testing.T, run func(context.Context, Options) (*Report, string, error)) {
		s := startChatter(t)
		r, _, err := run(t.Context(), parse(t, "--model m --backend openai-chat --max-concurrency 2 --save-detailed "+
			"--conversation-turn-delay-mean 3 --conversation-file "+file+" --base-url "+s.URL))
		require.NoError(t, err)
		require.Equal(t, 18, r.Completed)
		seen := map[string]bool{}
		for _, messages := range s.all() {
			k := messages[0][len("system: s"):]
			want := []string{"system: s" + k, "user: " + k + "a", "assistant: re: " + k + "a", `user: ` + k + `"b`,
				"assistant: re: " + k + `"b`, "user: " + k + "c"}
			require.Equal(t, want[:len(messages)], messages)
			require.Zero(t, len(messages)%2)
			seen[strings.Join(messages, "\n")] = true
		}
		require.Len(t, seen, 18)
		turns := r.Client.Turns
		require.Equal(t, [3]int{6, 0, 3}, [3]int{turns.Conversations, turns.Skipped, len(turns.Turns)})
		for n, one := range turns.Turns {
			require.Equal(t, [3]int{n + 1, 6, 0}, [3]int{one.Turn, one.Completed, one.Failed})
			require.InEpsilon(t, float64(2*n+2), one.Input, 1e-9, "as the server counts")
			require.Equal(t, 6, one.Latencies["ttft"].N)
			require.Positive(t, one.Latencies["e2el"].Median)
		}
		require.Len(t, turns.Requests, 18)
		require.Equal(t, [2]int{1, 2}, turns.Requests[13])
		for i := 6; i < 18; i++ {
			require.GreaterOrEqual(t, r.ended[i].Start-r.ended[i-6].End, 3*time.Millisecond.Nanoseconds())
		}
		require.Contains(t, r.ended[0].Text, "re: 0a")
		require.False(t, r.Client.Partial)
		raw, err := json.Marshal(r)
		require.NoError(t, err)
		require.Contains(t, string(raw), `"conversations":{"conversations":6,"skipped":0,"turns":[{"turn":1,`)
	})
}

func TestConversationEndsWithATurnThatFails(t *testing.T) {
	onAll(t, func(t *testing.T, run func(context.Context, Options) (*Report, string, error)) {
		s := startChatter(t)
		first := ""
		s.fails = func(messages []string) bool { // the second turn of the conversation that asks first
			s.mu.Lock()
			defer s.mu.Unlock()
			if first == "" {
				first = messages[0]
			}
			return messages[0] == first && len(messages) == 3
		}
		r, _, err := run(t.Context(), parse(t,
			"--model m --backend openai-chat --random-input-len 4 --random-output-len 2 "+
				"--conversation-turn-mean 4 --conversation-num 3 --base-url "+s.URL))
		require.NoError(t, err)
		require.Equal(t, [2]int{9, 1}, [2]int{r.Completed, r.Failed})
		require.Equal(t, 2, r.Client.Turns.Skipped)
		require.False(t, r.Client.Partial, "nothing was interrupted")
		require.Zero(t, r.Client.NotSent)
		require.Equal(t, 1, r.Client.Turns.Turns[1].Failed)
	})
}

func TestRandomConversations(t *testing.T) {
	s := startChatter(t)
	r, err := Run(t.Context(), parse(t, "--model m --backend openai-chat --random-input-len 5 --random-prefix-len 2 "+
		"--random-output-len 2 --num-prompts 11 --conversation-turn-mean 2 --request-rate 1000 --base-url "+s.URL), time.Now,
		io.Discard, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 10, r.Completed, "five conversations of two turns")
	words := map[int]int{}
	texts := map[string]bool{}
	for _, messages := range s.all() {
		last := strings.TrimPrefix(messages[len(messages)-1], "user: ")
		words[len(strings.Fields(last))]++
		texts[last] = true
	}
	require.Equal(t, map[int]int{7: 5, 5: 5}, words, "only the first turn has the prefix")
	require.Len(t, texts, 10, "no turn is like another")
}

// Each turn asks for a length of its own. Full-length answers are asked for where prompts are drawn,
// else if the user wants them.
func TestLengthsOfConversations(t *testing.T) {
	file := filepath.Join(t.TempDir(), "talks.json")
	require.NoError(t, os.WriteFile(file,
		[]byte(`{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`), 0o644))
	recorded := "--conversation-num 20 --conversation-file " + file
	for name, tt := range map[string]struct {
		flags     string
		varied    bool // the lengths of answers
		words     bool // the lengths of prompts
		ignoreEOS bool
	}{
		"drawn, of one length":           {"--num-prompts 40 --conversation-turn-mean 2", false, false, true},
		"drawn, of several lengths":      {"--num-prompts 40 --conversation-turn-mean 2 --random-range-ratio 0.5", true, true, true},
		"drawn, of varied answers":       {`--num-prompts 40 --conversation-turn-mean 2 --random-range-ratio {"input":0,"output":0.5}`, true, false, true},
		"from a file":                    {recorded, false, false, false},
		"from a file, of varied answers": {recorded + " --random-range-ratio 0.5", true, false, false},
		"from a file, in full length":    {recorded + " --ignore-eos", false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := startChatter(t)
			_, err := Run(t.Context(), parse(t,
				"--model m --backend openai-chat --random-input-len 10 --random-output-len 20 "+
					tt.flags+" --base-url "+s.URL), time.Now, io.Discard, io.Discard)
			require.NoError(t, err)
			require.Len(t, s.limits, 40)
			outputs, inputs := map[int]bool{}, map[int]bool{}
			for i, limit := range s.limits {
				require.Equal(t, tt.ignoreEOS, limit.IgnoreEOS)
				require.GreaterOrEqual(t, limit.Max, 10)
				require.LessOrEqual(t, limit.Max, 30)
				outputs[limit.Max] = true
				last := s.asked[i][len(s.asked[i])-1]
				inputs[len(strings.Fields(last))] = true
			}
			require.Equal(t, tt.varied, len(outputs) > 1, outputs)
			require.Equal(t, tt.words, len(inputs) > 1, inputs)
			require.Equal(t, !tt.varied, outputs[20] && len(outputs) == 1)
		})
	}
}

// All turns of a conversation ask one adapter.
func TestAdapterOfAConversation(t *testing.T) {
	o := parse(t, "--model m --backend openai-chat --num-prompts 40 --conversation-turn-mean 4 --lora-modules a b c")
	b, err := newBodies(t.Context(), &o, model{name: "m", vocabulary: 5000}, newServer(&o), io.Discard)
	require.NoError(t, err)
	seen := map[string]bool{}
	for i, talk := range b.talks.talk {
		require.Equal(t, b.models[talk], b.models[i])
		seen[b.models[i]] = true
	}
	require.Greater(t, len(seen), 1)
}

func TestHowManyConversations(t *testing.T) {
	list := make([]dataset.Conversation, 3)
	for k := range list {
		list[k].Turns = make([]json.RawMessage, k+1)
	}
	for line, want := range map[string]int{"": 3, "--num-prompts 6": 3, "--num-prompts 5": 2, "--num-prompts 1": 1,
		"--conversation-num 2": 2, "--conversation-num 7": 7} {
		o := parse(t, "--backend openai-chat --conversation-file x "+line)
		require.Len(t, o.fit(list), want, line)
	}
}

func TestConversationFileThatIsNone(t *testing.T) {
	s := startChatter(t)
	_, err := Run(t.Context(), parse(t,
		"--model m --backend openai-chat --conversation-file /nonexistent --base-url "+s.URL),
		time.Now, io.Discard, io.Discard)
	require.ErrorContains(t, err, "--conversation-file: ")
	file := filepath.Join(t.TempDir(), "talks.json")
	require.NoError(t, os.WriteFile(file, []byte(`[{"conversations":[{"from":"human","value":"a"}]},{}]`), 0o644))
	var log bytes.Buffer
	_, err = Run(t.Context(), parse(t,
		"--model m --backend openai-chat --conversation-file "+file+" --base-url "+s.URL), time.Now,
		io.Discard, &log)
	require.NoError(t, err)
	require.Contains(t, log.String(), "1 of 2 conversations were left out")
}

// A conversation is sent by one of the processes that share a load.
func TestProcessesShareConversations(t *testing.T) {
	s := startChatter(t)
	line := "--model m --backend openai-chat --random-input-len 4 --random-output-len 2 --conversation-turn-mean 3 " +
		"--conversation-num 5 --num-prompts 15 --max-concurrency 4 --base-url " + s.URL
	o := parse(t, line+" --processes 2")
	o.Again = func(ctx context.Context, more ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0], slices.Concat(strings.Fields(line), more)...)
		cmd.Env = append(os.Environ(), "PROFLLM_LOAD_ROLE=client")
		return cmd
	}
	r, err := Run(t.Context(), o, time.Now, io.Discard, os.Stderr)
	require.NoError(t, err)
	require.Equal(t, 15, r.Completed)
	require.Equal(t, 5, r.Client.Turns.Turns[2].Completed)
	for _, messages := range s.all() {
		for k := 2; k < len(messages); k += 2 {
			require.Equal(t, "assistant: re: "+strings.TrimPrefix(messages[k-2], "user: "), messages[k-1])
		}
	}
}
