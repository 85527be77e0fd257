package document

// Suites is the answer of bench suite.
type Suites struct {
	Head
	Dir     string       `json:"dir,omitempty"`   // in which the run directories are
	URL     string       `json:"url,omitempty"`   // of the server
	Model   string       `json:"model,omitempty"` // that was measured
	Runs    []SuiteEntry `json:"runs"`            // in their order
	Results []Row        `json:"results"`         // the records, as of collect; none with --list
}

// SuiteEntry is one run of a suite.
type SuiteEntry struct {
	Suite     string         `json:"suite"`
	Run       string         `json:"run"`
	Label     string         `json:"label"`
	Arguments map[string]any `json:"arguments"`       // of vllm bench serve, by their names in definition files
	Dir       string         `json:"dir,omitempty"`   // the run directory
	Kept      bool           `json:"kept,omitempty"`  // measured before, and not again
	Error     string         `json:"error,omitempty"` // why the client left no result
}

// Add adds a record.
func (d *Suites) Add(r Row) error {
	d.Results = append(d.Results, r)
	return nil
}
