package result

// Arrivals is how a client times the sends of a load with a rate.
type Arrivals string

// The ways. Without one, nothing is known of the client.
const (
	// Rescaled gaps are drawn and then stretched so that the last request is due at
	// requests over rate: vLLM since 0.10 (vllm-project/vllm#21108) and profllm.
	Rescaled Arrivals = "rescaled"
	Drawn    Arrivals = "drawn"  // each gap of its own: the sum varies
	Rising   Arrivals = "rising" // the rate changes during the load
)
