package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// What vLLM's own data sets yield for a seed and what our client sends for it, prompt by prompt.
//
// covers: LBEN-2
func TestVLLMDatasets(t *testing.T) {
	home := vllmHome(t)
	model := filepath.Join(home, "tiny")
	python := startPython(t, home, model)
	dir := dataFiles(t)
	for _, c := range datasetCases(dir, model) {
		t.Run(c.name, func(t *testing.T) {
			theirs := samplesOfVLLM(t, python, append([]string{"--model", model}, c.args...))
			ours := sentByProfllm(t, python, append([]string{"--model", model}, c.args...))
			require.Len(t, ours, len(theirs), "requests")
			require.NotEmpty(t, ours)
			same := 0
			for i, their := range theirs {
				if text, want := ours[i].text(t, python), their.text(t, python); text != want {
					t.Logf("request %d: %.80q, vLLM has %.80q", i, text, want)
				} else if *ours[i].Max != their.Output {
					t.Logf("request %d asks for %d tokens, vLLM for %d", i, *ours[i].Max, their.Output)
				} else if their.Extra != nil && !sameJSON(t, their.Extra["tools"], ours[i].Tools) {
					t.Logf("request %d has the tools %s, vLLM %s", i, ours[i].Tools, their.Extra["tools"])
				} else {
					same++
				}
				require.Equal(t, their.IgnoreEOS, ours[i].IgnoreEOS)
			}
			t.Logf("%s: %d of %d prompts are the same", c.name, same, len(theirs))
			require.Equal(t, len(theirs), same)
		})
	}
}

// Prompts with pictures: the same texts, and as many pictures of the same sizes and nearly the same pixels,
// as two libraries compress them.
//
// covers: LBEN-2
func TestVLLMPictures(t *testing.T) {
	home := vllmHome(t)
	model := filepath.Join(home, "tiny")
	python := startPython(t, home, model)
	args := []string{"--model", model, "--tokenizer", model, "--dataset-name", "random-mm", "--backend", "openai-chat",
		"--endpoint", "/v1/chat/completions", "--num-prompts", "30", "--seed", "3", "--random-input-len", "40",
		"--random-output-len", "9", "--random-range-ratio", "0.4", "--random-prefix-len", "7",
		"--random-mm-base-items-per-request", "2", "--random-mm-num-mm-items-range-ratio", "1",
		"--random-mm-limit-mm-per-prompt", `{"image": 3, "video": 0}`,
		"--random-mm-bucket-config", "{(96, 64, 1): 0.5, (240, 320, 1): 0.25, (720, 1280, 16): 0.0}"}
	theirs := samplesOfVLLM(t, python, args)
	ours := sentByProfllm(t, python, args)
	require.Len(t, ours, 30)
	require.Len(t, theirs, 30)
	pictures := 0
	for i, their := range theirs {
		require.Equal(t, their.Output, *ours[i].Max)
		require.Equal(t, their.IgnoreEOS, ours[i].IgnoreEOS)
		var parts []contentPart
		require.NoError(t, json.Unmarshal(ours[i].Messages[0].Content, &parts))
		require.Equal(t, their.text(t, python), parts[0].Text, "request %d", i)
		require.Len(t, parts[1:], len(their.Pictures), "request %d", i)
		for k, want := range their.Pictures {
			a, b := want.picture(t), parts[1+k].picture(t)
			require.Equal(t, a.Bounds(), b.Bounds())
			require.Less(t, difference(a, b), 8.0, "request %d, picture %d", i, k)
			require.InEpsilon(t, len(want.ImageURL.URL), len(parts[1+k].ImageURL.URL), 0.05, "request %d, picture %d", i, k)
			pictures++
		}
	}
	require.Greater(t, pictures, 20)
	t.Logf("random-mm: %d pictures of 30 prompts have the same size and nearly the same pixels", pictures)
}

// A contentPart is a part of a message of a chat.
type contentPart struct {
	Text     string
	ImageURL struct{ URL string } `json:"image_url"`
}

func (p contentPart) picture(t *testing.T) image.Image {
	t.Helper()
	_, raw, ok := strings.Cut(p.ImageURL.URL, "data:image/jpeg;base64,")
	require.True(t, ok)
	picture, err := jpeg.Decode(base64.NewDecoder(base64.StdEncoding, strings.NewReader(raw)))
	require.NoError(t, err)
	return picture
}

// difference is the mean difference of the grey of two pictures of one size, of 256 levels. That of two
// unlike pictures of noise is above 25.
func difference(a, b image.Image) float64 {
	sum, size := 0.0, a.Bounds().Size()
	for y := range size.Y {
		for x := range size.X {
			sum += math.Abs(float64(color.GrayModel.Convert(a.At(x, y)).(color.Gray).Y) -
				float64(color.GrayModel.Convert(b.At(x, y)).(color.Gray).Y))
		}
	}
	return sum / float64(size.X*size.Y)
}

// The two programs send the same prompts, and ask for the same lengths, on the wire.
//
// covers: LBEN-2
func TestVLLMDatasetsOnTheWire(t *testing.T) {
	home := vllmHome(t)
	model := filepath.Join(home, "tiny")
	python := startPython(t, home, model)
	args := []string{"--model", model, "--dataset-name", "sharegpt", "--dataset-path", filepath.Join(dataFiles(t), "sharegpt.json"),
		"--num-prompts", "50", "--seed", "6", "--temperature", "0"}
	ours := sentByProfllm(t, python, args)
	s := recorder(t, python)
	cmd := exec.Command(filepath.Join(home, "venv/bin/vllm"), append(append([]string{"bench", "serve"}, args...), "--base-url", s.URL,
		"--request-id-prefix", "r-", "--disable-tqdm")...)
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "HF_HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	theirs := s.inOrder(t)
	require.Len(t, theirs, 50)
	for i := range theirs {
		require.Equal(t, theirs[i].text(t, python), ours[i].text(t, python), "request %d", i)
		require.Equal(t, *theirs[i].Max, *ours[i].Max, "request %d", i)
	}
	t.Logf("sharegpt on the wire: %d of %d prompts are the same", len(ours), len(theirs))
}

type datasetCase struct {
	name string
	args []string
}

// datasetCases are flags that both clients take.
func datasetCases(dir, model string) []datasetCase {
	file := func(name string) string { return filepath.Join(dir, name) }
	var cases []datasetCase
	add := func(name, line string, more ...string) {
		cases = append(cases, datasetCase{name, append(strings.Fields(line), more...)})
	}
	const random = "--dataset-name random --num-prompts 40 --random-input-len 48 --random-output-len 9 --random-range-ratio 0.4"
	add("random", random, "--tokenizer", model)
	add("random with a prefix", random+" --random-prefix-len 17 --seed 7", "--tokenizer", model)
	add("random lengths", "--dataset-name random --num-prompts 30 --input-len 20 --output-len 5 --seed 4294967295",
		"--tokenizer", model, "--random-range-ratio", `{"input":0.1,"output":0.9}`)
	add("prefix_repetition", "--dataset-name prefix_repetition --num-prompts 23 --prefix-repetition-prefix-len 30 "+
		"--prefix-repetition-suffix-len 20 --prefix-repetition-num-prefixes 4 --seed 3", "--tokenizer", model)
	sharegpt := []string{"--dataset-path", file("sharegpt.json")}
	add("sharegpt", "--dataset-name sharegpt --num-prompts 30 --seed 2", sharegpt...)
	add("sharegpt, repeated", "--dataset-name sharegpt --num-prompts 90", sharegpt...)
	add("sharegpt, not repeated", "--dataset-name sharegpt --num-prompts 90 --no-oversample --disable-shuffle", sharegpt...)
	add("sharegpt, own length", "--dataset-name sharegpt --num-prompts 25 --output-len 3", sharegpt...)
	add("sharegpt, chat", "--dataset-name sharegpt --num-prompts 25 --backend openai-chat --endpoint /v1/chat/completions",
		sharegpt...)
	add("burstgpt", "--dataset-name burstgpt --num-prompts 20 --seed 5", "--dataset-path", file("burst.csv"), "--tokenizer", model)
	add("burstgpt, repeated", "--dataset-name burstgpt --num-prompts 70", "--dataset-path", file("burst.csv"), "--tokenizer", model)
	custom := []string{"--dataset-path", file("custom.jsonl")}
	add("custom", "--dataset-name custom --num-prompts 20 --seed 4", custom...)
	add("custom, all as they are", "--dataset-name custom --num-prompts -1 --skip-chat-template --custom-output-len -1", custom...)
	add("custom, repeated", "--dataset-name custom --num-prompts 60 --output-len 7", custom...)
	add("spec_bench", "--dataset-name spec_bench --num-prompts -1 --seed 9", "--dataset-path", file("spec.jsonl"))
	add("spec_bench, category", "--dataset-name spec_bench --num-prompts 5 --spec-bench-category math", "--dataset-path",
		file("spec.jsonl"))
	add("speed_bench", "--dataset-name speed_bench --num-prompts 12 --speed-bench-output-len 11", "--dataset-path", dir)
	add("timed_trace", "--dataset-name timed_trace --num-prompts 30 --timed-trace-sec-multiplier 0.001 "+
		"--timed-trace-label-timestamp at --timed-trace-chunk-hash-size 8", "--dataset-path", file("trace.jsonl"), "--tokenizer", model)
	hf := func(name, args, data string) {
		add("hf "+name, "--dataset-name hf --num-prompts 20 --hf-name "+name+" "+args, "--dataset-path", file(data))
	}
	hf("philschmid/mt-bench", "", "hf-mtbench")
	hf("openai/openai_humaneval", "--seed 3", "hf-humaneval")
	hf("openai/gsm8k", "--hf-output-len 6", "hf-gsm8k")
	hf("likaixin/InstructCoder", "--no-stream", "hf-instruct")
	hf("AI-MO/aimo-validation-aime", "", "hf-aimo")
	hf("Aeala/ShareGPT_Vicuna_unfiltered", "--hf-split train --disable-shuffle", "hf-vicuna")
	hf("mgoin/mlperf-inference-llama2-data", "", "hf-mlperf")
	return cases
}

// dataFiles writes a small file of each format.
func dataFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var sharegpt []any
	for i := range 60 {
		turns := []any{}
		for k := range i%4 + 1 {
			turns = append(turns, map[string]any{"from": "human", "value": speech(i, k, 3+11*i%97)})
		}
		sharegpt = append(sharegpt, map[string]any{"id": i, "conversations": turns})
	}
	sharegpt = append(sharegpt, map[string]any{"id": "without"})
	writeJSON(t, filepath.Join(dir, "sharegpt.json"), sharegpt)
	lines := func(name string, n int, line func(i int) map[string]any) {
		var b bytes.Buffer
		for i := range n {
			raw, err := json.Marshal(line(i))
			require.NoError(t, err)
			b.Write(append(raw, '\n'))
		}
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	}
	kind := func(i int) string { return []string{"math", "writing", "qa"}[i%3] }
	lines("custom.jsonl", 33, func(i int) map[string]any {
		return map[string]any{"prompt": speech(i, 0, 5+i), "output_tokens": 3 + i, "note": i}
	})
	lines("spec.jsonl", 31, func(i int) map[string]any {
		return map[string]any{"category": kind(i), "turns": []string{speech(i, 0, 6), "and?"}}
	})
	lines("qualitative.jsonl", 29, func(i int) map[string]any {
		return map[string]any{"category": kind(i), "messages": []any{map[string]any{"role": "user", "content": speech(i, 0, 9)}}}
	})
	lines("trace.jsonl", 30, func(i int) map[string]any {
		return map[string]any{"at": i * 10, "input_length": 5 + 3*i, "output_length": 2 + i%4,
			"hash_ids": []int{1, 2, i % 5, i, i + 1, i + 2, 70 + i, 80 + i, 90, 91, 92, 93}[:(5+3*i+7)/8%13]}
	})
	lines("hf-mtbench/train.jsonl", 27, func(i int) map[string]any { return map[string]any{"turns": []string{speech(i, 0, 6), "x"}} })
	lines("hf-humaneval/test.jsonl", 27, func(i int) map[string]any { return map[string]any{"prompt": speech(i, 0, 6)} })
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "hf-gsm8k/main"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "hf-gsm8k/README.md"),
		[]byte("---\nconfigs:\n- config_name: main\n  data_files:\n  - split: test\n    path: main/test.jsonl\n---\n"), 0o644))
	lines("hf-gsm8k/main/test.jsonl", 27, func(i int) map[string]any { return map[string]any{"question": speech(i, 1, 6), "answer": "4"} })
	lines("hf-instruct/train.jsonl", 27, func(i int) map[string]any {
		return map[string]any{"input": speech(i, 0, 7), "instruction": speech(i, 1, 4), "output": "x"}
	})
	lines("hf-aimo/train.jsonl", 27, func(i int) map[string]any {
		return map[string]any{"problem": speech(i, 0, 1+i), "solution": speech(i, 1, 1+i%9)}
	})
	lines("hf-vicuna/train.jsonl", 27, func(i int) map[string]any {
		var turns []any
		for k := range i%3 + 1 {
			turns = append(turns, map[string]any{"value": speech(i, k, 1+i)})
		}
		return map[string]any{"conversations": turns}
	})
	lines("hf-mlperf/train.jsonl", 27, func(i int) map[string]any {
		return map[string]any{"system_prompt": "Be brief.", "question": speech(i, 0, 4), "output": speech(i, 1, 1+i%5)}
	})
	writeBursts(t, filepath.Join(dir, "burst.csv"))
	return dir
}

func writeJSON(t *testing.T, path string, v any) {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, raw, 0o644))
}

func writeBursts(t *testing.T, path string) {
	t.Helper()
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	require.NoError(t, w.Write([]string{"Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type"}))
	for i := range 60 {
		name := []string{"GPT-4", "ChatGPT", "GPT-4"}[i%3]
		require.NoError(t, w.Write([]string{strconv.Itoa(i), name, strconv.Itoa(4 + i), strconv.Itoa(i % 7), "0", "API log"}))
	}
	w.Flush()
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
}

// speech is a text of n words in several scripts, another one for each i and k.
func speech(i, k, n int) string {
	words := []string{"Größe", "of", "the", "naïve", "world,", "你好", "мир", "12345", "don't", "it's\n", "x==y;", "😀", "  two", "<b>"}
	list := []string{fmt.Sprintf("Text %d.%d:", i, k)}
	for j := range n {
		list = append(list, words[(i*7+j*j+k)%len(words)])
	}
	return strings.Join(list, " ")
}

// startPython starts vLLM's data sets and tokenizer, and returns their URL.
func startPython(t *testing.T, home, model string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(home, "venv/bin/python"), "testdata/vllm-datasets.py", model)
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "PYTHONHASHSEED=0", "HF_HOME="+t.TempDir())
	var said bytes.Buffer
	cmd.Stderr = &said
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait() // its end is all that matters
	})
	in := bufio.NewReader(stdout)
	for {
		line, err := in.ReadString('\n')
		require.NoError(t, err, "%s", said.String())
		if port, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on "); ok {
			go io.Copy(io.Discard, in)
			return "http://127.0.0.1:" + port
		}
	}
}

// A sample is a request of vLLM's client.
type sample struct {
	Prompt    json.RawMessage
	Messages  json.RawMessage
	Pictures  []contentPart
	Output    int
	Extra     map[string]json.RawMessage
	IgnoreEOS bool `json:"ignore_eos"`
}

func (s *sample) text(t *testing.T, python string) string {
	if s.Messages != nil && string(s.Messages) != "null" {
		return string(s.Messages)
	}
	return promptText(t, python, s.Prompt)
}

// samplesOfVLLM asks for the requests that vLLM's client makes with these flags.
func samplesOfVLLM(t *testing.T, python string, args []string) (list []sample) {
	t.Helper()
	post(t, python+"/samples", args, &list)
	return list
}

func post(t *testing.T, to string, in, out any) {
	t.Helper()
	raw, err := json.Marshal(in)
	require.NoError(t, err)
	resp, err := http.Post(to, "application/json", bytes.NewReader(raw))
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode, "%s", body)
	require.NoError(t, json.Unmarshal(body, out))
}

// promptText is a prompt as text, whether it is text or token ids.
func promptText(t *testing.T, python string, raw json.RawMessage) string {
	t.Helper()
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var ids []int
	require.NoError(t, json.Unmarshal(raw, &ids), "%s", raw)
	var made struct{ Prompt string }
	post(t, python+"/detokenize", map[string]any{"tokens": ids}, &made)
	return made.Prompt
}

// A sentRequest is the body of a request as it was sent.
type sentRequest struct {
	Prompt    json.RawMessage
	Messages  []struct{ Role, Content json.RawMessage }
	MaxTokens *int `json:"max_tokens"`
	MaxChat   *int `json:"max_completion_tokens"`
	Max       *int `json:"-"`
	Tools     json.RawMessage
	IgnoreEOS bool `json:"ignore_eos"`
}

// text is the prompt, or the only message of a chat.
func (s *sentRequest) text(t *testing.T, python string) string {
	if s.Prompt != nil {
		return promptText(t, python, s.Prompt)
	}
	require.Len(t, s.Messages, 1)
	return promptText(t, python, s.Messages[0].Content)
}

func sameJSON(t *testing.T, a, b json.RawMessage) bool {
	t.Helper()
	var x, y any
	require.NoError(t, json.Unmarshal(a, &x))
	require.NoError(t, json.Unmarshal(b, &y))
	return fmt.Sprint(x) == fmt.Sprint(y)
}

// sentByProfllm runs our client and returns what it sent, in the order of its requests.
func sentByProfllm(t *testing.T, python string, args []string) []*sentRequest {
	t.Helper()
	s := recorder(t, python)
	o := profllm(t, t.TempDir(), nil, append(append([]string{"bench", "serve"}, args...), "--base-url", s.URL,
		"--request-id-prefix", "r-", "--disable-tqdm")...)
	require.Equal(t, exitOK, o.code)
	return s.inOrder(t)
}

// A recording is a server that keeps what it is sent.
type recording struct {
	*httptest.Server
	mu   sync.Mutex
	sent map[int]*sentRequest
}

// recorder answers every request with one token, and lets python be its tokenizer.
func recorder(t *testing.T, python string) *recording {
	t.Helper()
	to, err := url.Parse(python)
	require.NoError(t, err)
	r := &recording{sent: map[int]*sentRequest{}}
	mux := http.NewServeMux()
	mux.Handle("/tokenize", httputil.NewSingleHostReverseProxy(to))
	mux.Handle("/detokenize", httputil.NewSingleHostReverseProxy(to))
	mux.HandleFunc("/v1/", r.keep)
	r.Server = httptest.NewServer(mux)
	t.Cleanup(r.Close)
	return r
}

func (r *recording) keep(w http.ResponseWriter, req *http.Request) {
	body := &sentRequest{}
	raw, err := io.ReadAll(req.Body)
	if err == nil {
		err = json.Unmarshal(raw, body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	choice := `{"index":0,"text":"x","finish_reason":"length"}`
	if body.Max = body.MaxTokens; body.MaxChat != nil {
		body.Max = body.MaxChat
		choice = `{"index":0,"delta":{"role":"assistant","content":"x"},"finish_reason":"length"}`
	}
	id := req.Header.Get("x-request-id")
	if n, err := strconv.Atoi(id[strings.LastIndex(id, "-")+1:]); err == nil && id != "" {
		r.mu.Lock()
		r.sent[n] = body
		r.mu.Unlock()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"choices\":[%s]}\n\n", choice)
	fmt.Fprint(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1,\"total_tokens\":4}}\n\ndata: [DONE]\n\n")
}

func (r *recording) inOrder(t *testing.T) []*sentRequest {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*sentRequest, len(r.sent))
	for i := range out {
		require.Contains(t, r.sent, i)
		out[i] = r.sent[i]
	}
	return out
}
