package config

import (
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/source"
)

// ExportAll stands for the whole environment of the submitting shell.
const ExportAll = "ALL"

// Export names variables of the submitting shell that a job is given.
type Export []string

var variable = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// UnmarshalSource reads "ALL", or a list of names.
func (e *Export) UnmarshalSource(v *source.Value) error {
	switch x := v.Any.(type) {
	case string:
		if x != ExportAll {
			return source.Errorf(v.Pos, "export must be %q or a list of names, not %q", ExportAll, x).
				Hintf("write export = [%q]", x)
		}
		*e = Export{ExportAll}
	case []*source.Value:
		var c source.Complaints
		for _, item := range x {
			s, ok := item.Any.(string)
			if !ok || !variable.MatchString(s) {
				c.Add(source.Errorf(item.Pos, "export: %v cannot name an environment variable", item.Plain()).
					Hintf("write names only; a value goes to extra_env_vars"))
				continue
			}
			*e = append(*e, s)
		}
		return c.Err()
	default:
		return source.Errorf(v.Pos, "export must be %q or a list of names, not %s", ExportAll, v.Describe())
	}
	return nil
}
