package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/sim/program"
	"github.com/profllm/profllm/pkg/stats"
)

// A pooling client asks for embeddings or scores, as vLLM's client does with a backend of that
// kind. Its numbers are those of the simulated engine.
type pooling struct {
	backend, url, model string
	given               int // --num-prompts
	requests, batch     int // requests to send, inputs of each
	tokens, inFlight    int // of each input; requests at once
	percentiles         []float64
}

// poolingBackends are those of vLLM's client that are simulated, with the end of their endpoint.
var poolingBackends = map[string]string{
	"openai-embeddings": "embeddings", "infinity-embeddings": "embeddings", "vllm-pooling": "pooling",
	"vllm-rerank": "rerank",
}

// newPooling reads the command line; nil if its backend generates text.
func newPooling(args []string) (*pooling, error) {
	f := program.ParseFlags(args)
	backend := f.Text("backend", "openai")
	end, ok := poolingBackends[backend]
	if !ok {
		return nil, nil
	}
	endpoint := f.Text("endpoint", "/v1/completions")
	if !strings.HasSuffix(endpoint, end) {
		return nil, fmt.Errorf("--backend %s: the endpoint %s must end with %s", backend, endpoint, end)
	}
	c := &pooling{backend: backend, model: f.Text("model", ""), url: f.Text("base-url", "") + endpoint}
	for _, x := range []struct {
		to       *int
		name     string
		fallback int
	}{
		{&c.given, "num-prompts", 1000}, {&c.batch, "random-batch-size", 1}, {&c.tokens, "random-input-len", 1024},
		{&c.inFlight, "max-concurrency", 0},
	} {
		n, err := f.Size(x.name, x.fallback, 1)
		if err != nil {
			return nil, err
		}
		*x.to = n
	}
	inputs := c.given
	if !f.Bool("reranker", true) && backend == "vllm-rerank" { // the query counts as one of them
		if inputs, c.batch = inputs-1, c.batch-1; c.batch < 1 || inputs < 1 {
			return nil, errors.New("--no-reranker: want a --random-batch-size above 1")
		}
	}
	c.requests = (inputs + c.batch - 1) / c.batch
	if c.inFlight == 0 {
		c.inFlight = c.requests
	}
	for text := range strings.SplitSeq(f.Text("metric-percentiles", "99"), ",") {
		p, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("--metric-percentiles: %w", err)
		}
		c.percentiles = append(c.percentiles, p)
	}
	return c, nil
}

// body is the request number i.
func (c *pooling) body(i int) []byte {
	var v any
	if c.backend == "vllm-rerank" {
		var documents []string
		for k := range c.batch {
			documents = append(documents, words(i*c.batch+k+1, c.tokens/2))
		}
		v = map[string]any{"model": c.model, "query": words(0, c.tokens/2), "documents": documents,
			"truncate_prompt_tokens": -1}
	} else {
		var inputs []string
		for k := range c.batch {
			inputs = append(inputs, words(i*c.batch+k, c.tokens))
		}
		v = map[string]any{"model": c.model, "input": inputs}
	}
	data, _ := json.Marshal(v) // texts always encode
	return data
}

// words is a text of n tokens of the simulated engine, another for each seed.
func words(seed, n int) string {
	var b strings.Builder
	for i := range max(n, 1) {
		x := seed*7919 + i*104729
		b.WriteString(string([]byte{' ', byte('a' + x%26), byte('a' + x/26%26), byte('a' + x/676%26)}))
	}
	return b.String()
}

// an outcome is what came of a request.
type outcome struct {
	took   time.Duration
	tokens int
	err    error
}

func (c *pooling) ask(ctx context.Context, client *http.Client, i int) (o outcome) {
	start := time.Now()
	defer func() { o.took = time.Since(start) }()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(c.body(i)))
	if err != nil {
		return outcome{err: err}
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		return outcome{err: err}
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", answer.Status, data)
	}
	if err != nil {
		return outcome{err: err}
	}
	var v struct {
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	return outcome{err: json.Unmarshal(data, &v), tokens: v.Usage.Prompt}
}

// run sends the requests, so many at once.
func (c *pooling) run(ctx context.Context) (list []outcome, took time.Duration) {
	list = make([]outcome, c.requests)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: c.inFlight}}
	defer client.CloseIdleConnections()
	next := make(chan int)
	start := time.Now()
	var senders sync.WaitGroup
	for range c.inFlight {
		senders.Go(func() {
			for i := range next {
				list[i] = c.ask(ctx, client, i)
			}
		})
	}
	for i := range c.requests {
		next <- i
	}
	close(next)
	senders.Wait()
	return list, time.Since(start)
}

// result is the file of vLLM's client, with its keys for pooling.
func (c *pooling) result(list []outcome, took time.Duration) map[string]any {
	var latencies []float64
	tokens, sum, squares := 0, 0.0, 0.0
	for _, o := range list {
		if o.err != nil {
			continue
		}
		ms := float64(o.took) / 1e6
		latencies, tokens, sum, squares = append(latencies, ms), tokens+o.tokens, sum+ms, squares+ms*ms
	}
	slices.Sort(latencies)
	done, s := float64(len(latencies)), took.Seconds()
	n := max(done, 1)
	sequences := done * float64(c.batch)
	r := map[string]any{
		"date": time.Now().Format("20060102-150405"), "endpoint_type": c.backend, "backend": c.backend, "label": nil,
		"model_id": c.model, "tokenizer_id": c.model, "num_prompts": c.given, "request_rate": "inf", "burstiness": 1.0,
		"max_concurrency": c.inFlight, "simulated": "true", "duration": s, "completed": len(latencies),
		"total_input_tokens": tokens, "total_input_sequences": int(sequences), "request_throughput": done / s,
		"input_sequence_throughput": sequences / s, "total_token_throughput": float64(tokens) / s,
		"mean_e2el_ms": sum / n, "median_e2el_ms": stats.PercentileFromBelow(latencies, 0.5),
		"std_e2el_ms": math.Sqrt(max(0, squares/n-sum/n*sum/n)),
	}
	for _, p := range c.percentiles {
		r["p"+strconv.FormatFloat(p, 'f', -1, 64)+"_e2el_ms"] = stats.PercentileFromBelow(latencies, p/100)
	}
	return r
}

// pool measures and writes the result file.
func (c *pooling) pool(ctx context.Context, p program.Process, f program.Flags) int {
	fmt.Fprintln(p.Stdout, program.Notice)
	list, took := c.run(ctx)
	if ctx.Err() != nil {
		return program.Failed
	}
	r := c.result(list, took)
	for _, o := range list {
		if o.err != nil {
			fmt.Fprintf(p.Stderr, "profllm sim: a request failed: %v\n", o.err)
			break
		}
	}
	fmt.Fprintf(p.Stdout, "Successful requests: %v\nFailed requests: %d\nBenchmark duration (s): %.2f\n", r["completed"],
		c.requests-r["completed"].(int), took.Seconds())
	dir, name := f.Text("result-dir", "."), f.Text("result-filename", c.backend+".json")
	if !f.Bool("save-result", false) {
		return program.OK
	}
	data, err := json.Marshal(r)
	if err == nil {
		err = errors.Join(os.MkdirAll(dir, 0o777), os.WriteFile(filepath.Join(dir, name), data, 0o666))
	}
	if err != nil {
		return p.Fail(program.Failed, err)
	}
	return program.OK
}
