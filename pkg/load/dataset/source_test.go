package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/tier"
)

// wordTokenizer has one token for each word: the number behind its letter w.
type wordTokenizer struct{}

func (wordTokenizer) Encode(_ context.Context, texts []string, special bool) (out [][]int, err error) {
	for _, text := range texts {
		ids := []int{}
		if special {
			ids = append(ids, 0)
		}
		for _, w := range strings.Fields(text) {
			id := len(w)
			_, _ = fmt.Sscanf(w, "w%d", &id) // another word has its length as its token
			ids = append(ids, id)
		}
		out = append(out, ids)
	}
	return out, nil
}

func (wordTokenizer) Decode(_ context.Context, lists [][]int) (out []string, err error) {
	for _, ids := range lists {
		var words []string
		for _, id := range ids {
			words = append(words, fmt.Sprintf("w%d", id))
		}
		out = append(out, strings.Join(words, " "))
	}
	return out, nil
}

func (t wordTokenizer) Chat(ctx context.Context, chats []Messages, _ json.RawMessage) ([][]int, error) {
	var texts []string
	for _, chat := range chats {
		var messages []struct{ Content string }
		if err := json.Unmarshal(chat, &messages); err != nil {
			return nil, err
		}
		text := "w1"
		for _, m := range messages {
			text += " " + m.Content
		}
		texts = append(texts, text+" w2")
	}
	return t.Encode(ctx, texts, false)
}

// ask returns the requests that flags ask for. name is the data set, path its file.
func ask(t *testing.T, name, path string, change func(*Source)) ([]Request, []string, error) {
	t.Helper()
	var said []string
	s := &Source{Flags: defaults(name, path), Tokenizer: wordTokenizer{}, Log: func(format string, args ...any) {
		said = append(said, fmt.Sprintf(format, args...))
	}}
	if change != nil {
		change(s)
	}
	requests, err := s.Requests(t.Context())
	return requests, said, err
}

func defaults(name, path string) *Flags {
	return &Flags{
		DatasetName: name, DatasetPath: path, NumPrompts: 10, RandomInputLen: 32, RandomOutputLen: 8,
		RandomBatchSize:           1,
		PrefixRepetitionPrefixLen: 8, PrefixRepetitionSuffixLen: 4, PrefixRepetitionNumPrefixes: 3,
		PrefixRepetitionOutputLen: 5,
		CustomOutputLen:           256, SonnetInputLen: 40, SonnetOutputLen: 15, SonnetPrefixLen: 20, SpecBenchOutputLen: 9,
		SpeedBenchDatasetSubset: "qualitative", SpeedBenchOutputLen: 7, TimedTraceChunkHashSize: 16,
		TimedTraceSecMultiplier:  1,
		TimedTraceLabelTimestamp: "timestamp", TimedTraceLabelInputLength: "input_length",
		TimedTraceLabelOutputLength: "output_length", TimedTraceLabelHashIDs: "hash_ids",
		RandomMMBaseItemsPerRequest: 1, RandomMMLimitMMPerPrompt: Limits{"image": 255, "video": 1},
		RandomMMBucketConfig: Buckets{{256, 256, 1, 0.5}, {720, 1280, 1, 0.5}, {720, 1280, 16, 0}},
	}
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

const tenWords = "w3 w4 w5 w6 w7 w8 w9 w10 w11 w12"

func conversationFile(t *testing.T) string {
	return write(t, "s.json", `[{"conversations":[{"value":"`+tenWords+`"},{"value":"a b c d e"}]},
 {"conversations":[{"value":"too short"},{"value":"a b c d e"}]}, {"id": 5},
 {"conversations":[{"value":"one turn"}]},
 {"conversations":[{"value":"x `+tenWords+`"},{"value":"a b"}]}]`)
}

func TestConversationsAreChosenByLength(t *testing.T) {
	path := conversationFile(t)
	requests, _, err := ask(t, "sharegpt", path, nil)
	require.NoError(t, err)
	require.Len(t, requests, 10, "the only entry of a fitting length is repeated")
	require.Equal(t, Request{Prompt: Text(tenWords), Input: 11, Output: 6}, requests[0])

	requests, _, err = ask(t, "sharegpt", path, func(s *Source) {
		s.OutputLen, s.NoOversample, s.Chat = new(3), true, true
	})
	require.NoError(t, err)
	require.Len(t, requests, 2, "with an output length of one's own, short answers pass")
	require.ElementsMatch(t, []Prompt{UserMessage(tenWords), UserMessage("x " + tenWords)},
		[]Prompt{requests[0].Prompt, requests[1].Prompt})
	require.Equal(t, Unknown, requests[0].Input)
}

// covers: LBEN-2
func TestWithoutATokenizer(t *testing.T) {
	path := conversationFile(t)
	none := func(s *Source) { s.Tokenizer = nil }
	_, _, err := ask(t, "sharegpt", path, none)
	require.ErrorIs(t, err, ErrNoTokenizer)
	require.ErrorContains(t, err, "by which requests are chosen")

	requests, said, err := ask(t, "sharegpt", path, func(s *Source) { none(s); s.SharegptOutputLen = new(3) })
	require.NoError(t, err)
	require.Len(t, requests, 10)
	require.Contains(t, said[0], "not chosen by their length")

	custom := write(t, "c.jsonl", `{"prompt":"hello"}`)
	_, _, err = ask(t, "custom", custom, none)
	require.ErrorContains(t, err, "--skip-chat-template")
	for _, way := range []func(*Source){
		func(s *Source) { s.SkipChatTemplate = true }, func(s *Source) { s.Raw = true },
		func(s *Source) { s.Chat = true },
	} {
		requests, _, err = ask(t, "custom", custom, func(s *Source) { none(s); way(s) })
		require.NoError(t, err)
		require.Contains(t, string(requests[0].Prompt.AppendJSON(nil)), "hello")
	}
	_, _, err = ask(t, "sonnet", write(t, "s.txt", "a\nb\n"), none)
	require.ErrorIs(t, err, ErrNoTokenizer)
}

func TestTemplates(t *testing.T) {
	custom := write(t, "c.jsonl",
		"{\"prompt\":\"w7 w8\",\"output_tokens\":5}\n\n{\"prompt\":\"w9\",\"output_tokens\":\"6\"}\n")
	requests, _, err := ask(t, "custom", custom, func(s *Source) {
		s.NumPrompts, s.CustomOutputLen, s.DisableShuffle = -1, -1, true
	})
	require.NoError(t, err)
	require.Equal(t, []Request{{Prompt: IDs{1, 7, 8, 2}, Input: 4, Output: 5}, {Prompt: IDs{1, 9, 2}, Input: 3,
		Output: 6}}, requests)
}

func TestSonnetsShareTheirBeginning(t *testing.T) {
	var file strings.Builder
	for i := range 40 {
		fmt.Fprintf(&file, "w%d w%d\n", 100+i, 200+i)
	}
	path := write(t, "sonnet.txt", file.String())
	for _, chat := range []bool{false, true} {
		requests, _, err := ask(t, "sonnet", path, func(s *Source) { s.Chat = chat })
		require.NoError(t, err)
		require.Len(t, requests, 10)
		if chat {
			require.IsType(t, Messages{}, requests[0].Prompt)
			continue
		}
		first := requests[0].Prompt.(IDs)
		for _, r := range requests[1:] {
			ids := r.Prompt.(IDs)
			require.Equal(t, first[:16], ids[:16], "the task and the shared lines")
			require.NotEqual(t, first, ids)
			require.LessOrEqual(t, len(ids), 40)
			require.Equal(t, 15, r.Output)
		}
	}
	_, _, err := ask(t, "sonnet", path, func(s *Source) { s.SonnetInputLen = 5 })
	require.ErrorContains(t, err, "--sonnet-input-len 5 is too small")
}

func TestTraces(t *testing.T) {
	path := write(t, "t.jsonl", `{"timestamp":1500,"input_length":20,"output_length":3,"hash_ids":[7,8]}
{"timestamp":"2500","input_length":36,"output_length":4,"hash_ids":[7,8,9]}
{"timestamp":2500,"input_length":5,"output_length":4}`)
	requests, _, err := ask(t, "timed_trace", path, func(s *Source) {
		s.TimedTraceSecMultiplier, s.NumPrompts = 0.001, -1
	})
	require.NoError(t, err)
	require.Len(t, requests, 3)
	require.Equal(t, 1500*time.Millisecond, requests[0].Due)
	require.Equal(t, 2500*time.Millisecond, requests[1].Due)
	a, b := requests[0].Prompt.(Tokens).List(20), requests[1].Prompt.(Tokens).List(36)
	require.Equal(t, []int{20, 36, 5}, []int{requests[0].Input, requests[1].Input, requests[2].Input})
	var sent []int
	require.NoError(t, json.Unmarshal(requests[1].Prompt.AppendJSON(nil), &sent))
	require.Equal(t, b, sent)
	require.Equal(t, append(sent, sent[:10]...), requests[1].Prompt.(Tokens).List(46), "starts again at its end")
	require.Equal(t, a[:16], b[:16], "the same hash, the same tokens")
	require.NotEqual(t, a[16:], b[16:20], "a block that ends early is another one")
	require.NotEqual(t, a[:5], requests[2].Prompt.(Tokens).List(5), "without hashes, a prompt of its own")
	_, _, err = ask(t, "timed_trace", path, func(s *Source) { s.TimedTraceLabelTimestamp = "at" })
	require.ErrorContains(t, err, ":1: ")
	require.ErrorContains(t, err, "--timed-trace-label-timestamp")
}

// What prompts take of memory is bounded, and what they share is held once.
func TestTracesAreBounded(t *testing.T) {
	line := func(hashes string, length int) string {
		return fmt.Sprintf(`{"timestamp":1,"input_length":%d,"output_length":3,"hash_ids":[%s]}`+"\n", length, hashes)
	}
	bounded := func(n, most int) func(*Source) {
		return func(s *Source) { s.NumPrompts, s.TimedTraceChunkHashSize, s.most = n, 500, most }
	}
	shared := write(t, "shared.jsonl", strings.Repeat(line("7,8", 1000), 20))
	requests, _, err := ask(t, "timed_trace", shared, bounded(-1, 2000))
	require.NoError(t, err)
	require.Len(t, requests, 20)

	own := ""
	for k := range 5 {
		own += line(fmt.Sprintf("%d,%d", 2*k, 2*k+1), 1000)
	}
	path := write(t, "own.jsonl", own)
	_, _, err = ask(t, "timed_trace", path, bounded(-1, 4000))
	require.ErrorIs(t, err, errHeld)
	require.ErrorContains(t, err,
		"own.jsonl:4: the prompts are too large: they take more than 0 MiB of memory: set --num-prompts to 3 or less")
	requests, _, err = ask(t, "timed_trace", path, bounded(3, 4000))
	require.NoError(t, err)
	require.Len(t, requests, 3)
	_, _, err = ask(t, "timed_trace", path, bounded(-1, 100))
	require.ErrorIs(t, err, errHeld)
	require.NotContains(t, err.Error(), "--num-prompts", "no number of them is small enough")

	requests, _, err = ask(t, "timed_trace", write(t, "t.jsonl", line("1", 3)+"no JSON"), func(s *Source) {
		s.NumPrompts = 1
	})
	require.NoError(t, err, "what is not needed is not read")
	require.Len(t, requests, 1)
}

func TestBurstsAreBounded(t *testing.T) {
	const head = "Model,Request tokens,Response tokens\n"
	path := write(t, "b.csv", head+strings.Repeat("GPT-4,500,6\n", 20))
	rows, err := readBursts(path, 20)
	require.NoError(t, err)
	require.Len(t, rows, 20)
	_, err = readBursts(path, 19)
	require.ErrorContains(t, err, "b.csv: the table has more than 19 rows of GPT-4")

	requests, _, err := ask(t, "burstgpt", path, func(s *Source) { s.most = 10 })
	require.NoError(t, err, "ids are not held")
	require.Equal(t, []int{1001, 1002}, requests[1].Prompt.(Tokens).List(2))
	require.Equal(t, 1001, requests[1].Prompt.(Tokens).List(501)[500], "starts again at its end")
	for _, text := range []func(*Source){
		func(s *Source) { s.Chat = true }, func(s *Source) { s.Local = words100(t) },
	} {
		_, _, err = ask(t, "burstgpt", path, func(s *Source) { text(s); s.most = 2000 })
		require.ErrorContains(t, err, "set --num-prompts to 3 or less")
		_, _, err = ask(t, "burstgpt", path, func(s *Source) { text(s); s.NumPrompts, s.most = 3, 2000 })
		require.NoError(t, err)
	}

	path = write(t, "b.csv", head+"GPT-4,\"5"+strings.Repeat("\nGPT-4,5,6", rowLimit/5))
	_, err = readBursts(path, mostBursts)
	require.ErrorContains(t, err, "b.csv: a row is longer than 1 MiB")
}

// Texts are asked for in parts, and stay in their order.
func TestManyBurstsBecomeText(t *testing.T) {
	tier.Alone(t)
	path := write(t, "b.csv", "Model,Request tokens,Response tokens\nGPT-4,700000,6\n")
	requests, _, err := ask(t, "burstgpt", path, func(s *Source) { s.NumPrompts, s.Local = 3, words100(t) })
	require.NoError(t, err)
	for i, r := range requests {
		require.True(t, strings.HasPrefix(string(r.Prompt.(Text)), fmt.Sprintf("w%d w%d ", i, i+1)))
	}
}

// CPython 3.11 with PYTHONHASHSEED=0.
func TestHashIsCPythons(t *testing.T) {
	for text, want := range map[string]int64{
		"a": 4644417185603328019, "12:16": 2616316510322854463, "123456789:512": -1410136731604516350,
		"1:1": -6398714257461354187, strings.Repeat("x", 40): 2303902467218227611, "": 0,
	} {
		require.Equal(t, want, pythonHash(text), text)
	}
}

func TestPrefixesRepeat(t *testing.T) {
	requests, _, err := ask(t, "prefix_repetition", "", nil)
	require.NoError(t, err)
	require.Len(t, requests, 9, "3 for each of 3 prefixes; vLLM rounds down too")
	prefixes, all := map[string]int{}, map[string]bool{}
	for _, r := range requests {
		ids := r.Prompt.(Tokens).List(12)
		prefixes[fmt.Sprint(ids[:8])]++
		all[fmt.Sprint(ids)] = true
		require.Equal(t, []int{12, 5}, []int{r.Input, r.Output})
	}
	require.Len(t, prefixes, 3)
	require.Len(t, all, 9)
	for _, n := range prefixes {
		require.Equal(t, 3, n)
	}
}

func TestQueriesAndDocuments(t *testing.T) {
	for _, local := range []*Vocabulary{nil, words100(t)} {
		requests, said, err := ask(t, "random-rerank", "", func(s *Source) {
			s.Pooling, s.RandomBatchSize, s.Local = true, 4, local
		})
		require.NoError(t, err)
		require.Len(t, requests, 3)
		query := requests[0].Prompt.(Texts)[0]
		require.Len(t, strings.Fields(query), 15, "half of the input, and a separator")
		for i, r := range requests {
			texts := r.Prompt.(Texts)
			require.Len(t, texts, []int{5, 5, 3}[i])
			require.Equal(t, query, texts[0])
			require.Equal(t, 32*(len(texts)-1), r.Input)
		}
		require.Equal(t, local == nil, len(said) == 1)
	}
	requests, _, err := ask(t, "random-rerank", "", func(s *Source) {
		s.Pooling, s.RandomBatchSize, s.NoReranker = true, 4, true
	})
	require.NoError(t, err)
	require.Len(t, requests, 3, "9 documents in threes")
	require.Len(t, requests[0].Prompt, 4)
	_, _, err = ask(t, "random-rerank", "", nil)
	require.ErrorContains(t, err, "--backend vllm-rerank")
}

func TestBatches(t *testing.T) {
	requests, _, err := ask(t, "random", "", func(s *Source) { s.Pooling, s.RandomBatchSize = true, 4 })
	require.NoError(t, err)
	requests = Batches(requests, 4)
	require.Len(t, requests, 3)
	var lists [][]int
	require.NoError(t, json.Unmarshal(requests[2].Prompt.AppendJSON(nil), &lists))
	require.Len(t, lists, 2)
	require.Equal(t, 64, requests[2].Input)
	_, _, err = ask(t, "random", "", func(s *Source) { s.RandomBatchSize = 4 })
	require.ErrorContains(t, err, "backends that generate nothing")
}

// covers: LBEN-2
func TestFunctionCalls(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	put("BFCL_v3_a.json", `{"question":[[{"role":"user","content":"1?"}]],"function":[{"name":"f","parameters":{"type":"dict","properties":{"type":{"type":"float"}}}}]}
{"question":[],"function":[]}`)
	put("BFCL_v3_b.json",
		`{"question":[[{"role":"user","content":"2?"}],[]],"function":{"name":"g","type":7,"d":[null,true,1.5]}}`)
	change := func(s *Source) {
		s.HFName, s.BfclCategories, s.Chat, s.DisableShuffle, s.NoOversample = bfclName, "a, b", true, true, true
	}
	requests, _, err := ask(t, "hf", dir, change)
	require.NoError(t, err)
	require.Len(t, requests, 2)
	require.JSONEq(t, `[{"role":"user","content":"1?"}]`, string(requests[0].Prompt.AppendJSON(nil)))
	require.JSONEq(t,
		`[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"type":{"type":"number"}}}}}]`,
		string(requests[0].Extra[0].Value))
	require.JSONEq(t, `[{"type":"function","function":{"name":"g","type":7,"d":[null,true,1.5]}}]`,
		string(requests[1].Extra[0].Value))
	require.Equal(t, 512, requests[0].Output)
	_, _, err = ask(t, "hf", dir, func(s *Source) { change(s); s.Chat = false })
	require.ErrorContains(t, err, "openai-chat")
	_, _, err = ask(t, "hf", dir, func(s *Source) { change(s); s.BfclCategories = "c" })
	require.ErrorContains(t, err, "--bfcl-categories")
}

func TestHuggingFaceFolders(t *testing.T) {
	dir := t.TempDir()
	put := func(name string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(`{"prompt":"`+filepath.Base(name)+`"}`), 0o600))
	}
	change := func(s *Source) { s.HFName, s.SkipChatTemplate, s.NumPrompts = "openai/openai_humaneval", true, 1 }
	_, _, err := ask(t, "hf", dir, change)
	require.ErrorContains(t, err, "no file of JSON lines")
	put("data/test-0.parquet")
	_, _, err = ask(t, "hf", dir, change)
	require.ErrorContains(t, err, "to_json(")
	put("data/one.jsonl")
	requests, _, err := ask(t, "hf", dir, change)
	require.NoError(t, err, "the only file needs no split in its name")
	require.Equal(t, Text("one.jsonl"), requests[0].Prompt)
	put("data/two.jsonl")
	_, _, err = ask(t, "hf", dir, change)
	require.ErrorContains(t, err, "--hf-split")
	put("data/test-0.jsonl")
	requests, _, err = ask(t, "hf", dir, change)
	require.NoError(t, err)
	require.Equal(t, Text("test-0.jsonl"), requests[0].Prompt)
	requests, _, err = ask(t, "hf", filepath.Join(dir, "data/two.jsonl"), change)
	require.NoError(t, err)
	require.Equal(t, Text("two.jsonl"), requests[0].Prompt)
	list := write(t, "list.json", ` [{"prompt":"in a list"}]`)
	requests, _, err = ask(t, "hf", list, change)
	require.NoError(t, err)
	require.Equal(t, Text("in a list"), requests[0].Prompt)
}

// A copy of the subset that vLLM takes by itself need not name it; one that the user asks for must be
// there.
func TestSubsets(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "test.jsonl"), []byte(`{"question":"one","answer":"1"}`), 0o600))
	change := func(s *Source) { s.HFName, s.SkipChatTemplate, s.NumPrompts = "openai/gsm8k", true, 1 }
	_, _, err := ask(t, "hf", dir, change)
	require.NoError(t, err)
	_, _, err = ask(t, "hf", dir, func(s *Source) { change(s); s.HFSubset = "socratic" })
	require.ErrorContains(t, err, `no file with "socratic" in its name (--hf-subset)`)
}

// A file that is wrong is named with the line that is, and with what to do.
//
// covers: LBEN-2
func TestBadFiles(t *testing.T) {
	long := `{"prompt":"` + strings.Repeat("x", lineLimit) + `"}`
	for _, tt := range []struct{ name, file, content, want string }{
		{"custom", "c.jsonl", "{\"prompt\":\"a\"}\n{\"prompt\":\n", "c.jsonl:2: the line is no JSON"},
		{"custom", "c.jsonl", "{\"prompt\":\"a\"} x", "c.jsonl:1: the line is no JSON"},
		{"custom", "c.jsonl", "\n\n{\"text\":\"a\"}", `c.jsonl:3: the entry has no "prompt"`},
		{"custom", "c.jsonl", "[1]", "c.jsonl:1: the line is no JSON object"},
		{"custom", "c.jsonl", "{\"prompt\":1}", `c.jsonl:1: "prompt" is no string`},
		{"custom", "c.jsonl", "", "no entry that can be sent"},
		{"custom", "c.jsonl", "{\"prompt\":\"a\"}\n" + long, "c.jsonl:2: the line is longer than 64 MiB"},
		{"spec_bench", "s.jsonl", `{"turns":[]}`, `s.jsonl:1: the entry has no list of strings "turns"`},
		{"speed_bench", "s.jsonl", "", "is the folder of SPEED-Bench"},
		{"sharegpt", "s.json", `{"conversations":[]}`, "s.json:1: the file is no JSON list"},
		{"sharegpt", "s.json", "[\n{\"conversations\":[{\"value\":\"a\"},{}]}]", "s.json:2: turn 2: the entry has no \"value\""},
		{"sharegpt", "s.json", "[\n{\"conversations\":[{\"value\":\"a\"}", "s.json:2: the file is no JSON list"},
		{"sharegpt", "s.json", `[{"image":"x.png","conversations":[{"value":"a"},{"value":"b"}]}]`, "a picture or a video"},
		{"sharegpt", "s.json", "", "s.json:1: the file is no JSON list"},
		{"burstgpt", "b.csv", "", "b.csv:1: the file is empty"},
		{"burstgpt", "b.csv", "Model,Tokens\n", `b.csv:1: the table has no column "Request tokens"`},
		{"burstgpt", "b.csv", "Model,Request tokens,Response tokens\nGPT-4,5,6\nGPT-4,x,6\n", `b.csv:3: Request tokens is "x"`},
		{"burstgpt", "b.csv", "Model,Request tokens,Response tokens\nGPT-4,5\n", "line 2"},
		{"burstgpt", "b.csv", "Model,Request tokens,Response tokens\nChatGPT,5,6\n", "no entry that can be sent"},
		{"timed_trace", "t.jsonl", `{"timestamp":1}`, `t.jsonl:1: the entry has no "input_length" (--timed-trace-label-input-length`},
		{"timed_trace", "t.jsonl", `{"timestamp":1,"input_length":2.5,"output_length":1}`, "no whole number"},
		{"timed_trace", "t.jsonl", `{"timestamp":-1,"input_length":2,"output_length":1}`, "no time in seconds"},
		{"timed_trace", "t.jsonl", `{"timestamp":1,"input_length":99999999,"output_length":1}`, "is longer than"},
		{"timed_trace", "t.jsonl", `{"timestamp":1,"input_length":2,"output_length":1,"hash_ids":[1.5]}`, "neither a whole number"},
	} {
		t.Run(tt.name+" "+tt.want, func(t *testing.T) {
			_, _, err := ask(t, tt.name, write(t, tt.file, tt.content), nil)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// A pipe would be waited for, and could not be read twice.
func TestNoFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, name := range []string{"custom", "sharegpt", "burstgpt", "timed_trace", "sonnet"} {
		_, _, err := ask(t, name, pipe, nil)
		require.ErrorContains(t, err, "not a regular file", name)
		require.ErrorContains(t, err, "--dataset-path", name)
		_, _, err = ask(t, name, pipe+"-gone", nil)
		require.ErrorIs(t, err, os.ErrNotExist, name)
	}
}

func TestNoFolderForFetching(t *testing.T) {
	broken := errors.New("no network")
	_, _, err := ask(t, "sharegpt", "", func(s *Source) {
		s.Fetch = func(context.Context, string) (string, error) { return "", broken }
	})
	require.ErrorIs(t, err, broken)
	requests, _, err := ask(t, "sharegpt", "", func(s *Source) {
		s.Fetch = func(_ context.Context, name string) (string, error) {
			require.Equal(t, "sharegpt", name)
			return conversationFile(t), nil
		}
	})
	require.NoError(t, err)
	require.Len(t, requests, 10)
}

// words100 is a vocabulary of 100 tokens, of which the last is special.
func words100(t *testing.T) *Vocabulary {
	t.Helper()
	vocab := map[string]int{}
	for i := range 100 {
		vocab[fmt.Sprintf("w%d", i)] = i
	}
	raw, err := json.Marshal(map[string]any{"model": map[string]any{"vocab": vocab}})
	require.NoError(t, err)
	v, err := parseVocabulary(raw, []byte(`{"eos_token":{"content":"w99"},"chat_template":"w1"}`))
	require.NoError(t, err)
	return v
}

func TestVocabularies(t *testing.T) {
	v := words100(t)
	require.Equal(t, 100, v.Size)
	require.Len(t, v.plain(), 99)
	require.False(t, slices.Contains(v.allowed(), 99))

	v, err := parseVocabulary([]byte(`{"added_tokens":[{"id":7,"content":"<s>"}],"model":{"vocab":[["a",-1.5],["b",-2]]},
		"post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"TemplateProcessing",
		"single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],"special_tokens":{"<s>":{"ids":[7]}}}]}}`),
		[]byte(`{"extra_special_tokens":["<s>"]}`))
	require.NoError(t, err)
	require.Equal(t, []int{2, 1}, []int{v.Size, v.Around})
	require.Equal(t, []int{0, 1}, v.plain())
	for _, bad := range []string{`{`, `{}`, `{"model":{"vocab":{}}}`, `{"model":{"vocab":[[1]]}}`,
		`{"model":{"vocab":{"a":-4}}}`} {
		_, err := parseVocabulary([]byte(bad), nil)
		require.Error(t, err, bad)
	}
	_, err = parseVocabulary([]byte(`{"model":{"vocab":{"<s>":0}},"added_tokens":[{"id":5,"content":"x"}]}`),
		[]byte(`{"bos_token":"<s>"}`))
	require.ErrorContains(t, err, "special", "no token of the vocabulary proper is left to draw from")
}

// A server that is no tokenizer leaves token ids.
func TestTextNeedsATokenizer(t *testing.T) {
	requests, said, err := ask(t, "random", "", func(s *Source) { s.Local, s.Tokenizer = words100(t), nil })
	require.NoError(t, err)
	require.Implements(t, (*Tokens)(nil), requests[0].Prompt)
	require.Contains(t, said[0], "token ids and not vLLM's text")
	requests, said, err = ask(t, "random", "", func(s *Source) { s.Local = words100(t) })
	require.NoError(t, err)
	require.Empty(t, said)
	require.Len(t, strings.Fields(string(requests[0].Prompt.(Text))), 32)
}
