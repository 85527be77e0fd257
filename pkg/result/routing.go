package result

// Routing is what the frontend of NVIDIA Dynamo, which routes requests to workers, counted
// over the load. Tokens are counted by the frontend's tokenizer.
type Routing struct {
	Requests       int64            `json:"requests" jsonschema:"requests that the frontend ended"`
	FailedRequests int64            `json:"failed_requests,omitempty"`
	Errors         map[string]int64 `json:"errors,omitempty" jsonschema:"failed requests by Dynamo's error_type"`
	Migrations     int64            `json:"migrations,omitempty" jsonschema:"requests that went on with another worker"`
	Rejected       int64            `json:"rejected,omitempty" jsonschema:"requests that no worker had room for"`
	InputTokens    *float64         `json:"input_tokens,omitempty" jsonschema:"tokens of the prompts"`
	CachedTokens   *float64         `json:"cached_tokens,omitempty" jsonschema:"of these, tokens that the workers found in their prefix caches, by their own word"`
	HitRate        *float64         `json:"prefix_cache_hit_rate,omitempty" jsonschema:"cached_tokens / input_tokens, 0-1"`
	ExpectedTokens *float64         `json:"expected_cached_tokens,omitempty" jsonschema:"tokens that the KV router expected in the cache of the worker it chose"`
	BestTokens     *float64         `json:"best_cached_tokens,omitempty" jsonschema:"tokens that the KV router expected in the best of the caches"`
	OverheadMS     *float64         `json:"overhead_ms,omitempty" jsonschema:"mean time of the KV router's decision"`
	Reset          bool             `json:"reset,omitempty" jsonschema:"a counter fell or the start time changed: the frontend restarted in between"`
	Others         bool             `json:"others,omitempty" jsonschema:"other clients of the run sent requests between the two readings too"`
}
