package document

// Profile is the answer of profile.
type Profile struct {
	Head
	Traces []TraceEntry `json:"traces"` // of all records, in their order
}

// TraceEntry is a file that a profiler of a server left.
type TraceEntry struct {
	Dir       string   `json:"dir"`                 // of the record
	Kind      string   `json:"kind"`                // torch, nsys or viztracer
	Role      string   `json:"role"`                // the server, such as prefill_1
	Rank      *int     `json:"rank,omitempty"`      // of the process that wrote the trace, if it is known
	Process   string   `json:"process,omitempty"`   // worker or frontend, if it is known
	File      string   `json:"file"`                // path, absolute
	SizeMB    *float64 `json:"size_mb,omitempty"`   // 10^6 bytes, when the run was collected
	Missing   bool     `json:"missing,omitempty"`   // the file is no longer there
	Simulated bool     `json:"simulated,omitempty"` // no model ran
	URL       string   `json:"url,omitempty"`       // page that shows a file that is dropped on it
	Commands  []string `json:"commands,omitempty"`  // that show the file
}
