package result

// Offline is what a benchmark without a server measured: `vllm bench latency`,
// `throughput` and `startup`, and `profllm job requests`. It is never mixed with the
// numbers of a load client: a batch is no request, and nothing of it was streamed.
type Offline struct {
	Batch      *BatchLatency      `json:"batch,omitempty" jsonschema:"numbers of vllm bench latency"`
	Throughput *OfflineThroughput `json:"throughput,omitempty" jsonschema:"numbers of vllm bench throughput"`
	Startup    *Startup           `json:"startup,omitempty" jsonschema:"numbers of vllm bench startup"`
	Processor  *Processor         `json:"processor,omitempty" jsonschema:"numbers of vllm bench mm-processor"`
	Requests   *OfflineRequests   `json:"requests,omitempty" jsonschema:"times of single requests"`
}

// OfflineRequests are the times of single requests, as the engine took them. The statistics are of
// the requests of all engines together.
type OfflineRequests struct {
	TTFTFrom string  `json:"ttft_from" jsonschema:"moment from which TTFT counts: scheduled, when the engine began with the prompt (the queue is not in TTFT)"`
	TTFT     *Timing `json:"ttft,omitempty" jsonschema:"time to the first token"`
	TPOT     *Timing `json:"tpot,omitempty" jsonschema:"time per token after the first, of answers with several"`
	Queue    *Timing `json:"queue,omitempty" jsonschema:"time in the engine's queue, until scheduled"`
	E2EL     *Timing `json:"e2el,omitempty" jsonschema:"queue, TTFT and the tokens after the first"`
}

// Processor is what the processing of images, videos and sounds takes before the model sees them.
type Processor struct {
	Completed    *int   `json:"completed_requests,omitempty"`
	Failed       *int   `json:"failed_requests,omitempty"`
	EncoderCalls *int64 `json:"encoder_calls,omitempty"`

	E2EL          *Timing `json:"e2el,omitempty" jsonschema:"whole requests"`
	Preprocessing *Timing `json:"preprocessing,omitempty" jsonschema:"all of a request before its encoder"`
	HFProcessor   *Timing `json:"hf_processor,omitempty"`
	Hashing       *Timing `json:"hashing,omitempty"`
	CacheLookup   *Timing `json:"cache_lookup,omitempty"`
	Merging       *Timing `json:"merging,omitempty"`
	PromptUpdates *Timing `json:"prompt_updates,omitempty"`
	Encoder       *Timing `json:"encoder,omitempty" jsonschema:"forward passes of the encoder"`
}

// FromScheduled is a TTFT that leaves out the queue.
const FromScheduled = "scheduled"

// BatchLatency is the time from a batch of prompts to its last token.
type BatchLatency struct {
	Latency *Timing `json:"latency" jsonschema:"one value per iteration"`
}

// OfflineThroughput is the time that a fixed set of prompts took.
type OfflineThroughput struct {
	Duration             *float64 `json:"duration_s,omitempty"`
	Requests             *int64   `json:"requests,omitempty"`
	TotalTokens          *int64   `json:"total_tokens,omitempty" jsonschema:"input and output tokens"`
	InputTokens          *int64   `json:"total_input_tokens,omitempty"`
	OutputTokens         *int64   `json:"total_output_tokens,omitempty"`
	RequestThroughput    *float64 `json:"request_throughput,omitempty" jsonschema:"1/s"`
	TotalTokenThroughput *float64 `json:"total_token_throughput,omitempty" jsonschema:"input and output tokens per s"`
	OutputThroughput     *float64 `json:"output_throughput,omitempty" jsonschema:"output tokens per s"`
}

// Startup is the time until an engine could serve, with empty caches of compiled
// code (cold) and with filled ones (warm). Compilation is a part of it.
type Startup struct {
	Cold            *Timing `json:"cold,omitempty"`
	ColdCompilation *Timing `json:"cold_compilation,omitempty"`
	ColdEncoder     *Timing `json:"cold_encoder_compilation,omitempty"`
	Warm            *Timing `json:"warm,omitempty"`
	WarmCompilation *Timing `json:"warm_compilation,omitempty"`
	WarmEncoder     *Timing `json:"warm_encoder_compilation,omitempty"`
}

// Timing is the statistics of a few times, in s.
type Timing struct {
	N           *int               `json:"n,omitempty" jsonschema:"size of the sample"`
	Mean        *float64           `json:"mean_s,omitempty"`
	Std         *float64           `json:"std_s,omitempty" jsonschema:"standard deviation of the population"`
	Percentiles map[string]float64 `json:"percentiles_s,omitempty" jsonschema:"by rank in percent, such as 99; interpolated linearly"`
	Values      []float64          `json:"values_s,omitempty" jsonschema:"value of every iteration, in order; of requests none"`
}

// Timings lists what was timed, by key of the record, in a fixed order.
func (o *Offline) Timings() []NamedTiming {
	var all []NamedTiming
	add := func(name string, t *Timing) {
		if t != nil {
			all = append(all, NamedTiming{name, t})
		}
	}
	if o.Batch != nil {
		add("batch.latency", o.Batch.Latency)
	}
	if s := o.Startup; s != nil {
		add("startup.cold", s.Cold)
		add("startup.cold_compilation", s.ColdCompilation)
		add("startup.cold_encoder_compilation", s.ColdEncoder)
		add("startup.warm", s.Warm)
		add("startup.warm_compilation", s.WarmCompilation)
		add("startup.warm_encoder_compilation", s.WarmEncoder)
	}
	if p := o.Processor; p != nil {
		add("processor.e2el", p.E2EL)
		add("processor.preprocessing", p.Preprocessing)
		add("processor.hf_processor", p.HFProcessor)
		add("processor.hashing", p.Hashing)
		add("processor.cache_lookup", p.CacheLookup)
		add("processor.merging", p.Merging)
		add("processor.prompt_updates", p.PromptUpdates)
		add("processor.encoder", p.Encoder)
	}
	if r := o.Requests; r != nil {
		add("requests.ttft", r.TTFT)
		add("requests.tpot", r.TPOT)
		add("requests.queue", r.Queue)
		add("requests.e2el", r.E2EL)
	}
	return all
}

// NamedTiming is a Timing and its key below offline.
type NamedTiming struct {
	Name string
	*Timing
}

// Percentile returns the value at a rank in percent, and its key below results.
func (t NamedTiming) Percentile(rank string) (v float64, key string, ok bool) {
	v, ok = t.Percentiles[rank]
	return v, "offline." + t.Name + ".percentiles_s." + rank, ok
}
