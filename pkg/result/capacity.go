package result

// Capacity is what the logs of one instance of a role say about its room and its start. Its
// processes agree or not: each number says which of theirs it is. GiB are 2^30 bytes, also where
// SGLang or an old release of vLLM calls them GB.
type Capacity struct {
	Role    string `json:"role"`
	Replica int    `json:"replica,omitempty" jsonschema:"0 for the first"`
	Engines int    `json:"engines,omitempty" jsonschema:"processes that reported a KV cache: one for each data-parallel rank"`

	KVCacheTokens *int64   `json:"kv_cache_tokens,omitempty" jsonschema:"tokens that the KV cache of one engine holds, the smallest of the engines"`
	KVCacheBlocks *int64   `json:"kv_cache_blocks,omitempty" jsonschema:"blocks of the KV cache, where the engine reports no tokens (vLLM before 0.8)"`
	KVCacheGiB    *float64 `json:"kv_cache_gib,omitempty" jsonschema:"memory for the KV cache on one GPU, the smallest of the workers"`
	RequestTokens *int64   `json:"request_tokens,omitempty" jsonschema:"longest request, in tokens, for which maximum_concurrency holds"`
	Concurrency   *float64 `json:"maximum_concurrency,omitempty" jsonschema:"requests of request_tokens tokens that the KV cache of one engine holds, the smallest of the engines"`

	WeightsGiB *float64 `json:"weights_gib,omitempty" jsonschema:"memory that loading the model took on one GPU, the largest of the workers"`
	GraphsGiB  *float64 `json:"graphs_gib,omitempty" jsonschema:"memory that capturing the CUDA graphs took on one GPU, the largest of the workers"`

	Startup []StartPhase `json:"startup,omitempty" jsonschema:"phases of the start, in the order of a start; engine-init contains profiling, compile and graph-capture, and model-loading contains weights"`
}

// The phases of a start that a log can show.
const (
	PhaseBeforeLoading = "before-loading"   // imports, configuration, worker processes
	PhaseWeights       = "weights"          // reading the weights, a part of model-loading
	PhaseModelLoading  = "model-loading"    //
	PhaseProfiling     = "memory-profiling" // a part of engine-init
	PhaseCompile       = "compile"          // torch.compile, a part of engine-init
	PhaseGraphs        = "graph-capture"    // a part of engine-init
	PhaseEngine        = "engine-init"      // profiling, KV cache, warm-up
	PhaseReady         = "ready"            // the server accepts requests
)

// StartPhase is one phase of a start. A log has whole seconds; what the engine itself timed is
// finer.
type StartPhase struct {
	Name     string   `json:"name" jsonschema:"before-loading, weights, model-loading, memory-profiling, compile, graph-capture, engine-init or ready"`
	Duration *float64 `json:"duration_s,omitempty" jsonschema:"as the engine timed it, the longest of the processes; of before-loading, by the times of the log"`
	End      *float64 `json:"end_s,omitempty" jsonschema:"end of the phase after the first dated line of the log, in whole seconds, the latest of the processes"`
}

// Took is how long a phase took, in s; nil if the log does not say so.
func (c *Capacity) Took(phase string) *float64 {
	for i := range c.Startup {
		if c.Startup[i].Name == phase {
			return c.Startup[i].Duration
		}
	}
	return nil
}

// Reached is when a phase ended, in s from the log's first dated line; nil if the log does not say
// so.
func (c *Capacity) Reached(phase string) *float64 {
	for i := range c.Startup {
		if c.Startup[i].Name == phase {
			return c.Startup[i].End
		}
	}
	return nil
}
