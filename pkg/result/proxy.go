package result

// Proxy is what profllm's own proxy counted between two pages of its metrics: the
// requests that clients sent by POST, without those that control engines.
type Proxy struct {
	Requests   int64            `json:"requests" jsonschema:"POST requests of clients, without those that control engines"`
	Statuses   map[string]int64 `json:"statuses,omitempty" jsonschema:"these requests by the status that the client saw; 499: the client left first"`
	Broken     int64            `json:"broken,omitempty" jsonschema:"answers that broke off after their first byte"`
	BadAnswers int64            `json:"bad_answers,omitempty" jsonschema:"answers of status 200 that hold an error, or are an event stream without its end"`
	Resent     int64            `json:"resent,omitempty" jsonschema:"requests that were sent to an instance a second time, because no byte of them had arrived"`
	WithoutKV  int64            `json:"without_kv,omitempty" jsonschema:"requests whose prompt decode computed itself, because prefill answered no kv_transfer_params"`
	// The mean over the completions between the two readings.
	OverheadMS *float64       `json:"overhead_ms,omitempty" jsonschema:"mean time from the head of a request to the first byte of its answer that the proxy did not spend waiting for an instance"`
	Backends   []ProxyBackend `json:"backends,omitempty" jsonschema:"instances that failed, or were sent a request twice"`
	Reset      bool           `json:"reset,omitempty" jsonschema:"a counter fell: the proxy restarted in between"`
	Others     bool           `json:"others,omitempty" jsonschema:"other clients of the run sent requests between the two readings too"`
}

// ProxyBackend is what the proxy counted for one instance.
type ProxyBackend struct {
	Role     string           `json:"role"`
	URL      string           `json:"url"`
	Failures map[string]int64 `json:"failures,omitempty" jsonschema:"requests without a whole or a good answer, by reason"`
	Resent   int64            `json:"resent,omitempty"`
}
