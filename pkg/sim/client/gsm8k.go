package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/sim/engine"
	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/sim/program"
)

// EvalOptions are the flags of vLLM's gsm8k_eval.py, with its defaults.
type EvalOptions struct {
	shots, Questions, MaxTokens int
	Host                        string // with the scheme
	Port                        int
	temperature                 float64
	Seed                        uint64
	Model                       string // empty: not sent
	Chat                        bool
	save                        string
	Concurrency                 int // 0: all at once
	Timeout                     time.Duration
}

// EvalResult is the file of --save-results; Simulated is ours.
type EvalResult struct {
	Accuracy     float64    `json:"accuracy"`
	InvalidRate  float64    `json:"invalid_rate"`
	Latency      float64    `json:"latency"` // seconds
	Questions    float64    `json:"questions_per_second"`
	OutputTokens int        `json:"total_output_tokens"`
	Tokens       float64    `json:"tokens_per_second"`
	NumQuestions int        `json:"num_questions"`
	NumShots     int        `json:"num_shots"`
	MaxTokens    int        `json:"max_tokens"`
	Timestamp    float64    `json:"timestamp"` // Unix seconds
	Params       evalParams `json:"request_params"`
	Simulated    bool       `json:"simulated"`
}

type evalParams struct {
	Endpoint    string      `json:"endpoint"`
	Model       *string     `json:"model"`
	Temperature float64     `json:"temperature"`
	TopP        engine.Null `json:"top_p"`
	TopK        engine.Null `json:"top_k"`
	Seed        uint64      `json:"seed"`
	Effort      engine.Null `json:"reasoning_effort"`
	Template    engine.Null `json:"chat_template_kwargs"`
}

func parseEval(args []string) (EvalOptions, error) {
	f := program.ParseFlags(args)
	o := EvalOptions{
		Host:  strings.TrimSuffix(f.Text("host", "http://127.0.0.1"), "/"),
		Model: f.Text("model", ""),
		Chat:  f.Bool("use-chat-completions", false),
		save:  f.Text("save-results", ""),
	}
	var errs []error
	number := func(to *int, name string, fallback, least int) {
		n, err := f.Size(name, fallback, least)
		if err != nil {
			errs = append(errs, err)
		}
		*to = n
	}
	var seed, timeout int
	number(&o.shots, "num-shots", 5, 0)
	number(&o.Questions, "num-questions", 1319, 1)
	number(&o.MaxTokens, "max-tokens", 256, 1)
	number(&o.Port, "port", engine.DefaultPort, 1)
	number(&o.Concurrency, "max-concurrency", 0, 1)
	number(&timeout, "request-timeout-seconds", 600, 1)
	number(&seed, "seed", 42, 0)
	o.Seed, o.Timeout = uint64(seed), time.Duration(timeout)*time.Second
	t, err := strconv.ParseFloat(f.Text("temperature", "0"), 64)
	if err != nil {
		errs = append(errs, fmt.Errorf("--temperature=%q: want a number", f.Text("temperature", "")))
	}
	o.temperature = t
	if !strings.Contains(o.Host, "://") {
		errs = append(errs, fmt.Errorf("--host=%q: want a URL with its scheme, such as http://127.0.0.1", o.Host))
	}
	return o, errors.Join(errs...)
}

// GSM8K is vLLM's accuracy script, with generated arithmetic in place of the GSM8K data set.
func GSM8K(ctx context.Context, p program.Process, args []string) int {
	o, err := parseEval(args)
	if err != nil {
		return p.Fail(program.Usage, fmt.Errorf("gsm8k_eval.py: %w", err))
	}
	fmt.Fprintf(p.Stdout, "profllm sim: %d generated questions, %d shots, no GSM8K\n", o.Questions, o.shots)
	r := o.Run(ctx)
	if ctx.Err() != nil {
		return p.Fail(program.Failed, ctx.Err())
	}
	fmt.Fprintf(p.Stdout, "\nResults:\nAccuracy: %.3f\nInvalid responses: %.3f\nTotal latency: %.3f s\nQuestions per second: %.3f\n"+
		"Total output tokens: %d\nOutput tokens per second: %.3f\n", r.Accuracy, r.InvalidRate, r.Latency, r.Questions,
		r.OutputTokens, r.Tokens)
	if o.save == "" {
		return program.OK
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(o.save, text, 0o644)
	}
	if err != nil {
		return p.Fail(program.Failed, fmt.Errorf("save results: %w", err))
	}
	fmt.Fprintf(p.Stdout, "Results saved to %s\n", o.save)
	return program.OK
}

// question returns number i of the questions of a seed, and its answer, which is never
// negative: the script reads no sign.
func question(seed, i uint64) (string, int) {
	a, b := int(knobs.Mix(seed, 2*i)%900)+100, int(knobs.Mix(seed, 2*i+1)%90)+10
	operator := [...]string{"plus", "minus", "times"}[knobs.Mix(seed^i, i)%3]
	text := fmt.Sprintf("A rehearsal, not a benchmark: what is %d %s %d?", a, operator, b)
	return text, engine.Compute(strconv.Itoa(a), operator, strconv.Itoa(b))
}

// Run asks all questions and adds up. A request that fails counts as an invalid answer.
func (o EvalOptions) Run(ctx context.Context) EvalResult {
	var shots strings.Builder
	for i := range o.shots {
		text, answer := question(o.Seed, uint64(i))
		fmt.Fprintf(&shots, "Question: %s\nAnswer: %d\n\n", text, answer)
	}
	right, invalid, tokens := 0, 0, 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	limit := o.Questions
	if o.Concurrency > 0 {
		limit = min(limit, o.Concurrency)
	}
	slots := make(chan struct{}, limit)
	client := &http.Client{Timeout: o.Timeout}
	start := time.Now()
	for i := range o.Questions {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			text, want := question(o.Seed, uint64(o.shots+i))
			said, n := o.ask(ctx, client, shots.String()+"Question: "+text+"\nAnswer:")
			got, ok := lastNumber(said)
			mu.Lock()
			defer mu.Unlock()
			tokens += n
			switch {
			case !ok:
				invalid++
			case got == strconv.Itoa(want):
				right++
			}
		})
	}
	wg.Wait()
	took := time.Since(start).Seconds()
	r := EvalResult{
		Accuracy:    float64(right) / float64(o.Questions),
		InvalidRate: float64(invalid) / float64(o.Questions),
		Latency:     took, Questions: float64(o.Questions) / took,
		OutputTokens: tokens, Tokens: float64(tokens) / took,
		NumQuestions: o.Questions, NumShots: o.shots, MaxTokens: o.MaxTokens,
		Timestamp: engine.Seconds(time.Now()),
		Params:    evalParams{Endpoint: "completions", Temperature: o.temperature, Seed: o.Seed},
		Simulated: true,
	}
	if o.Chat {
		r.Params.Endpoint = "chat/completions"
	}
	if o.Model != "" {
		r.Params.Model = &o.Model
	}
	return r
}

var evalStops = []string{"Question", "Assistant:", "<|separator|>"}

// ask returns the answer's text and tokens; both are empty when the request fails.
func (o EvalOptions) ask(ctx context.Context, client *http.Client, prompt string) (string, int) {
	body := map[string]any{
		"temperature": o.temperature, "max_tokens": o.MaxTokens, "stop": evalStops, "seed": o.Seed,
	}
	path := "/v1/completions"
	if o.Chat {
		path = "/v1/chat/completions"
		body["messages"] = []map[string]string{{"role": "user", "content": prompt}}
	} else {
		body["prompt"] = prompt
	}
	if o.Model != "" {
		body["model"] = o.Model
	}
	text, err := json.Marshal(body)
	if err != nil {
		return "", 0
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s:%d%s", o.Host, o.Port, path),
		bytes.NewReader(text))
	if err != nil {
		return "", 0
	}
	q.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(q)
	if err != nil {
		return "", 0
	}
	defer resp.Body.Close()
	var a struct {
		Choices []struct {
			Text    string                   `json:"text"`
			Message struct{ Content string } `json:"message"`
		} `json:"choices"`
		Usage engine.Usage `json:"usage"`
	}
	if json.NewDecoder(resp.Body).Decode(&a) != nil || len(a.Choices) == 0 {
		return "", 0
	}
	return a.Choices[0].Text + a.Choices[0].Message.Content, a.Usage.Completion
}

var digits = lazyregexp.New(`\d+`)

// lastNumber reads an answer as the script does: commas dropped, the last run of digits.
func lastNumber(text string) (string, bool) {
	all := digits.FindAllString(strings.ReplaceAll(text, ",", ""), -1)
	if len(all) == 0 {
		return "", false
	}
	return all[len(all)-1], true
}
