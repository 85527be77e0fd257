package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/alecthomas/kong"

	"github.com/profllm/profllm/pkg/load/dataset"
)

// Options are the flags of "vllm bench serve" (vLLM 0.32) that this client knows, by their
// names and with their defaults. A flag that it cannot honour is refused by [Options.Validate],
// but for those of which the help says that they have no effect. A few flags are this client's own
// (tag ours). The fields below the line are no flags: a command fills them in.
type Options struct {
	Backend         Backend `name:"backend" default:"openai" help:"Request protocol: vllm, openai, openai-chat, openai-responses, openai-embeddings, openai-embeddings-chat, infinity-embeddings, vllm-pooling, vllm-rerank."`
	BaseURL         string  `name:"base-url" placeholder:"URL" help:"Base URL of the server, such as http://host:8000; replaces --host and --port."`
	Host            string  `name:"host" default:"127.0.0.1" help:"Server host."`
	Port            int     `name:"port" default:"8000" help:"Server port."`
	Endpoint        string  `name:"endpoint" default:"/v1/completions" help:"Path of the API; default: the one that fits the backend."`
	Header          List    `name:"header" placeholder:"KEY=VALUE" help:"Request headers."`
	Insecure        bool    `name:"insecure" help:"Do not verify the server's certificate."`
	Model           string  `name:"model" help:"Model; default: the first that the server lists."`
	ServedModelName string  `name:"served-model-name" help:"Model name in requests, if it differs from --model."`
	Label           string  `name:"label" help:"Beginning of the automatic name of the result file; recorded in the result."`
	RequestIDPrefix string  `name:"request-id-prefix" help:"Prefix of the x-request-id header; default: random."`

	Tokenizer         string `name:"tokenizer" help:"Recorded. If it is a folder, or in Hugging Face's cache, drawn prompts are the very text of vLLM's client."`
	TokenizerMode     string `name:"tokenizer-mode" default:"auto" help:"Accepted, but has no effect."`
	TrustRemoteCode   bool   `name:"trust-remote-code" help:"Accepted, but has no effect."`
	SkipTokenizerInit bool   `name:"skip-tokenizer-init" help:"Record a null tokenizer, and use none: prompts of files are sent as they are."`

	dataset.Flags
	Talk
	Plots

	IgnoreEOS          bool     `name:"ignore-eos" help:"Ask for full-length answers; always on for random prompts and timed_trace."`
	NoIgnoreEOS        bool     `name:"no-ignore-eos" ours:"" help:"Never send ignore_eos, for servers that refuse it: answers may end earlier."`
	ExtraBody          Object   `name:"extra-body" placeholder:"JSON" help:"JSON object merged into every request; replaces sampling flags."`
	Logprobs           *int     `name:"logprobs" help:"Log probabilities per token."`
	ChatTemplateKwargs Object   `name:"chat-template-kwargs" placeholder:"JSON" help:"JSON object of arguments for the model's chat template."`
	LoraModules        List     `name:"lora-modules" placeholder:"NAME" help:"LoRA adapters of the server; each request asks for one of them."`
	LoraAssignment     string   `name:"lora-assignment" default:"random" enum:"random,round-robin" help:"How a request gets its adapter: ${enum}."`
	UseBeamSearch      bool     `name:"use-beam-search" help:"Accepted, but has no effect with these protocols."`
	Temperature        *float64 `name:"temperature" help:"Sampling temperature; default: the server's."`
	TopP               *float64 `name:"top-p" help:"Sampling: nucleus."`
	TopK               *int     `name:"top-k" help:"Sampling: best K."`
	MinP               *float64 `name:"min-p" help:"Sampling: minimum probability."`
	FrequencyPenalty   *float64 `name:"frequency-penalty" help:"Sampling: frequency penalty."`
	PresencePenalty    *float64 `name:"presence-penalty" help:"Sampling: presence penalty."`
	RepetitionPenalty  *float64 `name:"repetition-penalty" help:"Sampling: repetition penalty."`

	RequestRate          float64 `name:"request-rate" default:"inf" help:"Requests per second; inf sends all at once."`
	Burstiness           float64 `name:"burstiness" default:"1.0" help:"Shape of the Gamma law of intervals: 1 is Poisson, below 1 bursty, above 1 regular, inf constant."`
	MaxConcurrency       *int    `name:"max-concurrency" help:"Largest number of requests in flight."`
	RampUpStrategy       string  `name:"ramp-up-strategy" default:"" enum:",linear,exponential" help:"Raise the rate during the run: linear or exponential."`
	RampUpStartRPS       *int    `name:"ramp-up-start-rps" help:"Rate at the first request."`
	RampUpEndRPS         *int    `name:"ramp-up-end-rps" help:"Rate at the last request."`
	ProbeRequestRate     float64 `name:"probe-request-rate" default:"0.0" help:"Requests of one token per second beside the load, measured apart."`
	NumWarmups           int     `name:"num-warmups" default:"0" help:"Requests sent before the run; they are not measured."`
	ReadyCheckTimeoutSec int     `name:"ready-check-timeout-sec" default:"0" help:"Seconds to wait until a first request succeeds; 0 disables the check."`
	Profile              bool    `name:"profile" help:"Start and stop the server's profiler around the run."`
	DisableTqdm          bool    `name:"disable-tqdm" help:"Print no progress."`

	PercentileMetrics string `name:"percentile-metrics" placeholder:"LIST" help:"Metric families to report: ttft, tpot, itl, e2el, client_queue_time, e2el_including_client_queue. Default: ttft,tpot,itl."`
	MetricPercentiles string `name:"metric-percentiles" default:"99" help:"Percentiles to report, separated by commas."`
	Goodput           List   `name:"goodput" placeholder:"KEY:MS" help:"Limits in ms that a good request meets: ttft, tpot, e2el."`
	SaveResult        bool   `name:"save-result" help:"Write the result as JSON."`
	AppendResult      bool   `name:"append-result" help:"Append the result to the file, after a newline."`
	SaveDetailed      bool   `name:"save-detailed" help:"Keep per-request arrays in the result."`
	ResultDir         string `name:"result-dir" help:"Folder of the result; created if missing."`
	ResultFilename    string `name:"result-filename" help:"Name of the result file instead of the automatic one."`
	Metadata          List   `name:"metadata" placeholder:"KEY=VALUE" help:"Extra top-level keys of the result."`

	SaveRequests string `name:"save-requests" ours:"" placeholder:"FILE" help:"Write a line of JSON for each request: its times, tokens, status and error; with --save-detailed also each token event."`

	Shared `embed:""`

	// APIKey is sent as a bearer token unless empty. vLLM's client takes it from OPENAI_API_KEY.
	APIKey string `kong:"-"`
	// Proxy chooses the proxy of a request, as [http.ProxyFromEnvironment] does; nil means none.
	Proxy func(*http.Request) (*url.URL, error) `kong:"-"`
	// HubCache is the folder in which Hugging Face's library keeps models; empty if there is none.
	HubCache string `kong:"-"`
	// DataCache is the folder in which fetched data sets are kept; empty if there is none.
	DataCache string `kong:"-"`
	// Again makes a command that runs this program again with the same flags and these behind them.
	// It starts the other client processes of --processes.
	Again func(context.Context, ...string) *exec.Cmd `kong:"-"`
	// Simulated tells the simulated engine by the owner of its models: it returns the line that is printed
	// above its numbers, "" for a real engine. nil asks nobody.
	Simulated func(owner string) (notice string) `kong:"-"`
	// ByReading makes tokens arrive when they are read, as for vLLM's client: the kernel is not asked.
	ByReading bool `kong:"-"`
	// Version of the program, recorded in the result.
	Version string `kong:"-"`
}

// OptionNames lists the options as definition files spell them, with underscores.
func OptionNames() []string {
	var names []string
	t := reflect.TypeFor[Options]()
	for _, field := range reflect.VisibleFields(t) {
		if name := field.Tag.Get("name"); name != "" {
			names = append(names, strings.ReplaceAll(name, "-", "_"))
		}
	}
	return names
}

// argParser parses into its options, one command line after the other.
type argParser struct {
	mu      sync.Mutex
	options Options
	kong    *kong.Kong
}

// parser is made once: that takes five times as long as parsing, and a plan of a sweep
// parses for each point.
var parser = sync.OnceValues(func() (*argParser, error) {
	p := new(argParser)
	var err error
	p.kong, err = kong.New(&p.options, kong.Name("vllm bench serve"), kong.NoDefaultHelp(), kong.Exit(func(int) {}),
		kong.Writers(io.Discard, io.Discard))
	return p, err
})

// ParseArgs reads a plain command line of "vllm bench serve", without the words before its flags.
// As in vLLM, underscores in flag names count as dashes. It does not [Options.Validate].
func ParseArgs(args []string) (Options, error) {
	o, _, err := parseArgs(args)
	return o, err
}

// OfCommand are the options of the command line of a client with vLLM's flags.
func OfCommand(words []string) (Options, error) {
	first := slices.IndexFunc(words, func(word string) bool { return strings.HasPrefix(word, "-") })
	if first < 0 {
		return Options{}, errors.New("no flag of vllm bench serve")
	}
	return ParseArgs(words[first:])
}

// parseArgs also returns the names of the flags that were given.
func parseArgs(args []string) (o Options, given []string, err error) {
	p, err := parser()
	if err != nil {
		return o, nil, fmt.Errorf("declare flags: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	parsed, err := p.kong.Parse(plainArgs(args))
	if err != nil {
		return o, nil, err
	}
	for _, at := range parsed.Path {
		if at.Flag != nil {
			given = append(given, at.Flag.Name)
		}
	}
	return p.options, given, nil
}

// With are the options with the flags of a command line over them. Metadata adds up.
func (o Options) With(args []string) (Options, error) {
	over, given, err := parseArgs(args)
	if err != nil {
		return o, err
	}
	over.Metadata = slices.Concat(o.Metadata, over.Metadata)
	from, to := reflect.ValueOf(over), reflect.ValueOf(&o).Elem()
	for _, f := range reflect.VisibleFields(to.Type()) {
		if slices.Contains(given, f.Tag.Get("name")) {
			to.FieldByIndex(f.Index).Set(from.FieldByIndex(f.Index))
		}
	}
	return o, nil
}

// plainArgs rewrites what argparse takes and kong does not: --num_prompts, and a negative
// number after a flag.
func plainArgs(args []string) []string {
	out := make([]string, 0, len(args))
	for _, a := range args {
		last := len(out) - 1
		switch _, err := strconv.ParseFloat(a, 64); {
		case strings.HasPrefix(a, "--"):
			name, value, ok := strings.Cut(a, "=")
			a = strings.ReplaceAll(name, "_", "-")
			if ok {
				a += "=" + value
			}
			out = append(out, a)
		case err == nil && strings.HasPrefix(a, "-") && last >= 0 && strings.HasPrefix(out[last], "--") &&
			!strings.Contains(out[last], "="):
			out[last] += "=" + a
		default:
			out = append(out, a)
		}
	}
	return out
}

// Validate returns every complaint about o at once.
func (o *Options) Validate() error {
	var bad []error
	if err := o.Flags.Validate(); err != nil {
		bad = append(bad, err)
	}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	check(!o.IgnoreEOS || !o.NoIgnoreEOS, "--ignore-eos and --no-ignore-eos exclude each other")
	check(!o.NeedsChat() || o.chat(), "this data set has tools in each request: use --backend openai-chat")
	check(!o.Timed() || math.IsInf(o.RequestRate, 1) && o.RampUpStrategy == "",
		"the trace says when requests are sent: leave out --request-rate and --ramp-up-strategy, or add "+
			"--no-self-timed")
	check(o.RequestRate > 0, "--request-rate is %v, must be above 0", o.RequestRate)
	check(o.Burstiness > 0, "--burstiness is %v, must be above 0", o.Burstiness)
	check(o.MaxConcurrency == nil || *o.MaxConcurrency > 0, "--max-concurrency must be 1 or more")
	check(o.ProbeRequestRate >= 0 && !math.IsInf(o.ProbeRequestRate, 1),
		"--probe-request-rate is %v, must be a number, 0 or more", o.ProbeRequestRate)
	check(o.NumWarmups >= 0, "--num-warmups is %d, must be 0 or more", o.NumWarmups)
	check(o.SaveResult || o.AppendResult || o.PlotTimeline || o.ResultFilename == "",
		"--result-filename %q has no effect without --save-result", o.ResultFilename)
	for _, err := range []error{o.checkRampUp(), o.checkProcesses(), o.checkURL(), o.checkLists(), o.checkBackend(),
		o.checkAdapters(), o.checkTalk(), o.checkPlots()} {
		if err != nil {
			bad = append(bad, err)
		}
	}
	return errors.Join(bad...)
}

func (o *Options) checkRampUp() error {
	start, end := o.RampUpStartRPS, o.RampUpEndRPS
	switch {
	case o.RampUpStrategy == "" && start == nil && end == nil:
		return nil
	case o.RampUpStrategy == "":
		return fmt.Errorf("--ramp-up-start-rps and --ramp-up-end-rps need --ramp-up-strategy")
	case start == nil || end == nil:
		return fmt.Errorf("--ramp-up-strategy needs --ramp-up-start-rps and --ramp-up-end-rps")
	case *start <= 0:
		return fmt.Errorf("--ramp-up-start-rps is %d, must be 1 or more", *start)
	case *start > *end:
		return fmt.Errorf("--ramp-up-start-rps %d is above --ramp-up-end-rps %d", *start, *end)
	case !math.IsInf(o.RequestRate, 1):
		return fmt.Errorf("--ramp-up-strategy sets the rate: leave out --request-rate")
	}
	return nil
}

func (o *Options) checkURL() error {
	u, err := url.Parse(o.url())
	if err != nil {
		return fmt.Errorf("--base-url: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("--base-url %q is not an http or https URL", o.BaseURL)
	}
	want := o.protocol().suffix
	if !strings.HasSuffix(u.Path, want) {
		return fmt.Errorf("--endpoint %q does not fit --backend %s: it has to end with %s", o.Endpoint, o.Backend, want)
	}
	return nil
}

func (o *Options) checkLists() error {
	var bad []error
	for _, l := range []struct {
		flag string
		list List
	}{{"--header", o.Header}, {"--metadata", o.Metadata}} {
		if _, err := l.list.pairs("="); err != nil {
			bad = append(bad, fmt.Errorf("%s: %w", l.flag, err))
		}
	}
	headers, _ := o.Header.pairs("=")
	for _, h := range headers {
		if strings.ContainsAny(h.Key+h.Value, "\r\n\x00") || strings.ContainsAny(h.Key, ": \t") {
			bad = append(bad, fmt.Errorf("--header %q is not a header name, or its value has a line break", h.Key))
		}
	}
	if strings.ContainsAny(o.RequestIDPrefix+o.APIKey, "\r\n\x00") {
		bad = append(bad, fmt.Errorf("--request-id-prefix or the API key has a line break"))
	}
	if _, err := Goodput(o.Goodput); err != nil {
		bad = append(bad, err)
	}
	if _, err := o.families(); err != nil {
		bad = append(bad, err)
	}
	if _, err := o.percentiles(); err != nil {
		bad = append(bad, err)
	}
	return errors.Join(bad...)
}

// Goodput reads limits such as ttft:200: ms by metric.
func Goodput(limits List) (map[string]float64, error) {
	pairs, err := limits.pairs(":")
	if err != nil {
		return nil, fmt.Errorf("--goodput: %w", err)
	}
	byMetric := make(map[string]float64, len(pairs))
	for _, p := range pairs {
		ms, err := strconv.ParseFloat(p.Value, 64)
		switch {
		case p.Key != "ttft" && p.Key != "tpot" && p.Key != "e2el":
			return nil, fmt.Errorf("--goodput: unknown metric %q: known are ttft, tpot, e2el", p.Key)
		case err != nil || !(ms >= 0):
			return nil, fmt.Errorf("--goodput: %s limit %q is not a number of ms, 0 or more", p.Key, p.Value)
		}
		byMetric[p.Key] = ms
	}
	return byMetric, nil
}

// families returns the metric families asked for, in the order of [familyTitles].
func (o *Options) families() ([]string, error) {
	list := o.PercentileMetrics
	if list == "" {
		list = "ttft,tpot,itl"
	}
	if o.PercentileMetrics == "" && o.pools() {
		list = "e2el"
	}
	want := make(map[string]bool)
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if _, ok := familyTitle(name); !ok {
			return nil, fmt.Errorf("--percentile-metrics: unknown family %q", name)
		}
		want[name] = true
	}
	var out []string
	for _, t := range familyTitles {
		if want[t.key] {
			out = append(out, t.key)
		}
	}
	return out, nil
}

// percentiles returns the percentiles asked for, in order.
func (o *Options) percentiles() ([]float64, error) {
	var out []float64
	for p := range strings.SplitSeq(o.MetricPercentiles, ",") {
		f, err := strconv.ParseFloat(strings.TrimSpace(p), 64)
		if err != nil || !(f >= 0 && f <= 100) {
			return nil, fmt.Errorf("--metric-percentiles: %q is not a number from 0 to 100", p)
		}
		out = append(out, f)
	}
	return out, nil
}

// Base returns the server's base URL without a slash at its end.
func (o *Options) Base() string {
	if o.BaseURL != "" {
		return strings.TrimRight(o.BaseURL, "/")
	}
	host := strings.Trim(o.Host, "[]")
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("http://%s:%d", host, o.Port)
}

// defaultEndpoint is vLLM's default of --endpoint. It fits completions only; vLLM's client fails
// with it for all other backends.
const defaultEndpoint = "/v1/completions"

// url returns the URL requests go to.
func (o *Options) url() string {
	if o.Endpoint == defaultEndpoint {
		return o.Base() + o.protocol().endpoint
	}
	return o.Base() + o.Endpoint
}

// Faster makes the load fit servers whose time runs n times faster: rates are n times
// higher, and the limits of a good request n times lower.
func (o *Options) Faster(n int) error {
	limits, err := Goodput(o.Goodput)
	if err != nil {
		return err
	}
	o.Goodput = nil
	for _, key := range slices.Sorted(maps.Keys(limits)) {
		o.Goodput = append(o.Goodput, fmt.Sprintf("%s:%g", key, limits[key]/float64(n)))
	}
	o.RequestRate *= float64(n)
	o.ProbeRequestRate *= float64(n)
	o.ConversationTurnDelayMean /= float64(n)
	o.TimedTraceSecMultiplier /= float64(n)
	for _, rps := range []**int{&o.RampUpStartRPS, &o.RampUpEndRPS} {
		if *rps != nil {
			faster := **rps * n
			*rps = &faster
		}
	}
	return nil
}
