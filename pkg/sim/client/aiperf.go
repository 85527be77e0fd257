package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/sim/program"
)

// AIPerf is `aiperf profile` and `genai-perf profile`: profllm's load client with random prompts,
// and its result in their files.
func AIPerf(ctx context.Context, p program.Process, name string, args []string) int {
	if len(args) == 0 || args[0] != "profile" {
		return p.Fail(program.Usage, fmt.Errorf("%s %s is not simulated: want profile", name, strings.Join(args, " ")))
	}
	f := program.ParseFlags(args[1:])
	asked, err := readAsked(&f)
	if err != nil {
		return p.Fail(program.Usage, fmt.Errorf("%s: %w", name, err))
	}
	if _, ok := f.Values["accuracy-benchmark"]; ok {
		return asked.accuracy(ctx, p, f.Text("accuracy-benchmark", ""))
	}
	dir, err := os.MkdirTemp("", "profllm-sim-bench-")
	if err != nil {
		return p.Fail(program.Failed, err)
	}
	defer os.RemoveAll(dir)
	const file = "bench.json"
	fmt.Fprintf(p.Stdout, "profllm sim: %s, simulated by profllm's own client with random prompts\n", name)
	for _, what := range asked.instead {
		fmt.Fprintf(p.Stdout, "profllm sim: %s\n", what)
	}
	if code := Bench(ctx, p, append(asked.argv(), "--result-dir", dir, "--result-filename", file)); code != program.OK {
		return code
	}
	var r measured
	data, err := regular.ReadFile(filepath.Join(dir, file))
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err == nil {
		var speed int
		if speed, err = knobs.Speed(p.Env); err == nil {
			asked.rate *= float64(speed)
			err = asked.write(name, &r)
		}
	}
	if err != nil {
		return p.Fail(program.Failed, fmt.Errorf("%s: %w", name, err))
	}
	return program.OK
}

// askedOf is a load as the command line of AIPerf asks for it.
type askedOf struct {
	url, model, endpoint, path, dir string
	streaming                       bool
	requests, inFlight, warmups     int
	input, output                   int
	rate                            float64 // 0: none
	seed                            string
	goodput                         []string
	instead                         []string // what was not taken as it is
}

// firstOf is the first option that is given, of those that mean the same.
func firstOf(f *program.Flags, names ...string) string {
	for _, n := range names {
		if _, ok := f.Values[n]; ok {
			return n
		}
	}
	return names[0]
}

// readAsked reads the options that shape the simulated load.
func readAsked(f *program.Flags) (*askedOf, error) {
	a := &askedOf{
		url: f.Text(firstOf(f, "url", "u"), "localhost:8000"), model: f.Text(firstOf(f, "model", "model-names"), ""),
		endpoint: f.Text("endpoint-type", "chat"), path: f.Text(firstOf(f, "endpoint", "custom-endpoint"), ""),
		dir: f.Text(firstOf(f, "artifact-dir", "output-artifact-dir"), ""), seed: f.Text("random-seed", "0"),
		streaming: f.Bool("streaming", false),
	}
	var errs [6]error
	a.inFlight, errs[0] = f.Size("concurrency", 0, 1)
	a.requests, errs[1] = f.Size(firstOf(f, "request-count", "num-requests"), max(10, 2*a.inFlight), 1)
	a.warmups, errs[2] = f.Size(firstOf(f, "warmup-request-count", "num-warmup-requests"), 0, 1)
	a.input, errs[3] = f.Size(firstOf(f, "prompt-input-tokens-mean", "synthetic-input-tokens-mean", "isl"), 550, 1)
	a.output, errs[4] = f.Size(firstOf(f, "prompt-output-tokens-mean", "output-tokens-mean", "osl"), 128, 1)
	if text := f.Text("request-rate", ""); text != "" {
		a.rate, errs[5] = strconv.ParseFloat(text, 64)
	}
	if a.rate == 0 && a.inFlight == 0 {
		a.inFlight = 1
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	if a.endpoint != "chat" && a.endpoint != "completions" {
		return nil, fmt.Errorf("--endpoint-type=%q: only chat and completions are simulated", a.endpoint)
	}
	if a.dir == "" {
		return nil, errors.New("--artifact-dir is missing")
	}
	for _, name := range []string{"input-file", "public-dataset", "custom-dataset-type", "fixed-schedule"} {
		if _, ok := f.Values[name]; ok {
			a.instead = append(a.instead, "--"+name+" is not read")
		}
	}
	if _, ok := f.Values["benchmark-duration"]; ok {
		a.instead = append(a.instead,
			fmt.Sprintf("--benchmark-duration is not kept: the load ends with %d requests", a.requests))
	}
	a.goodput = limits(f.Values["goodput"])
	return a, nil
}

// tags are AIPerf's metrics, and the names of the same latencies here.
var tags = [][2]string{
	{"time_to_first_token", "ttft"}, {"inter_token_latency", "tpot"}, {"request_latency", "e2el"},
}

// limits are those of goodput that profllm's client has.
func limits(words []string) (list []string) {
	for _, pair := range strings.Fields(strings.Join(words, " ")) {
		tag, value, _ := strings.Cut(pair, ":")
		for _, t := range tags {
			if t[0] == tag {
				list = append(list, t[1]+":"+value)
			}
		}
	}
	return list
}

// argv is the load for profllm's client.
func (a *askedOf) argv() []string {
	backend, path := "openai-chat", "/v1/chat/completions"
	if a.endpoint == "completions" {
		backend, path = "openai", "/v1/completions"
	}
	if a.path != "" {
		path = a.path
	}
	url := a.url
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	argv := []string{"--backend", backend, "--base-url", url, "--endpoint", path, "--model", a.model,
		"--num-prompts", strconv.Itoa(a.requests), "--random-input-len", strconv.Itoa(a.input),
		"--random-output-len", strconv.Itoa(a.output), "--num-warmups", strconv.Itoa(a.warmups), "--seed", a.seed,
		"--temperature", "0", "--save-result", "--save-detailed", "--percentile-metrics", "ttft,tpot,itl,e2el",
		"--metric-percentiles", "90,95,99"}
	if a.inFlight > 0 {
		argv = append(argv, "--max-concurrency", strconv.Itoa(a.inFlight))
	}
	if a.rate > 0 {
		argv = append(argv, "--request-rate", strconv.FormatFloat(a.rate, 'g', -1, 64))
	}
	if len(a.goodput) > 0 {
		argv = append(append(argv, "--goodput"), a.goodput...)
	}
	return argv
}
