package scenario

import (
	"cmp"

	"github.com/profllm/profllm/pkg/source"
)

// Search is [Tests.search]: the load of the test is searched for, as `profllm bench search` does.
type Search struct {
	// Limits that hold together, such as ["p99_ttft_ms=500"].
	Limits     []string `toml:"limits,required"`
	Variable   string   `toml:"variable"`   // "max_concurrency" or "request_rate"; default max_concurrency.
	Min        float64  `toml:"min"`        // Lowest load; default 1, or a tenth of the first rate.
	Max        float64  `toml:"max"`        // Highest load; default 1024, or 1.5 times the rate that a run without a rate has.
	Resolution float64  `toml:"resolution"` // Loads are multiples of this; default 1, or about 1 % of that rate.
	Start      float64  `toml:"start"`      // First load; default 8, or half of that rate.
	Tolerance  Percent  `toml:"tolerance"`  // Width at which the interval is narrow enough; default "5%".
	Probes     int      `toml:"probes"`     // Most measurements; default 40.
	Time       Limit    `toml:"time"`       // No measurement begins after this time; default: none.
	AtLeast    float64  `toml:"at_least"`   // End the search once it surely finds less than this, which another configuration reaches; default: never.
	// The points of the sweep compete: end the search of a point once it surely finds less than a finished one with the same load and as many GPUs; default false.
	StopLosers bool `toml:"stop_losers"`
}

// check refuses a search that cannot be.
func (s *Search) check(t *source.Table, c *source.Complaints) {
	if s.Variable != "" && s.Variable != "max_concurrency" && s.Variable != "request_rate" {
		c.Add(source.Errorf(t.PosOf("variable"), "search.variable is %q", s.Variable).
			Hintf(`write "max_concurrency" or "request_rate"`))
	}
	if s.Limits != nil && len(s.Limits) == 0 {
		c.Addf(t.PosOf("limits"), "search.limits is empty")
	}
	if v := t.Get("probes"); v != nil {
		if n, ok := v.Int(); ok && n < 1 {
			c.Addf(v.Pos, "search.probes is %d, must be 1 or more", n)
		}
	}
}

// Load is the key of the load that is varied.
func (s *Search) Load() string { return cmp.Or(s.Variable, "max_concurrency") }
