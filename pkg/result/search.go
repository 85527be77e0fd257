package result

// Search is the answer of a search for the highest load within limits.
type Search struct {
	Variable string   `json:"variable" jsonschema:"max_concurrency or request_rate"`
	Limits   []string `json:"limits" jsonschema:"such as p99_ttft_ms <= 500; all of them are kept"`
	Outcome  string   `json:"outcome" jsonschema:"found, lowest-fails, no-limit, beaten, budget-spent, no-valid-results or interrupted"`
	// Low and High are the interval: the highest load that holds and the lowest that fails.
	Low         *float64 `json:"low,omitempty" jsonschema:"highest load that holds; absent if none that was measured surely does"`
	High        *float64 `json:"high,omitempty" jsonschema:"lowest load that fails; absent if none that was measured surely does"`
	Probability float64  `json:"probability" jsonschema:"that the edge lies within the interval, 0 to 1"`
	Edge        float64  `json:"edge,omitempty" jsonschema:"best estimate of the load at which the first limit is reached; absent if an end of the interval is; of no-valid-results, the load that stays invalid"`
	Measured    *float64 `json:"measured,omitempty" jsonschema:"highest load of a probe that holds; the record's results are its numbers"`
	AtLeast     *float64 `json:"at_least,omitempty" jsonschema:"load that another configuration reaches; only of outcome beaten"`
	Rival       string   `json:"rival,omitempty" jsonschema:"folder of that configuration, if its search is known"`
	Probes      int      `json:"probes" jsonschema:"measurements"`
	Invalid     int      `json:"invalid,omitempty" jsonschema:"measurements that were no evidence"`
	Seconds     float64  `json:"seconds" jsonschema:"time that the measurements took, s"`
	Why         string   `json:"why,omitempty" jsonschema:"what is wrong with the answer"`
	Sentence    string   `json:"sentence" jsonschema:"answer for a person"`
}
