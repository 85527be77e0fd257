package scenario

import (
	"strconv"

	"github.com/profllm/profllm/pkg/source"
)

// APICheck is api_check: the checks of the servers' API between readiness and the first load.
type APICheck struct {
	On   bool
	Only []string // numbers or names of checks; none: all
}

// UnmarshalSource reads true, false, or a list of checks.
func (a *APICheck) UnmarshalSource(v *source.Value) error {
	if on, ok := v.Bool(); ok {
		a.On = on
		return nil
	}
	list, ok := v.Any.([]*source.Value)
	if !ok {
		return source.Errorf(v.Pos, "api_check must be true, false or a list of checks, not %s", v.Describe()).
			Hintf(`write api_check = true, or api_check = ["models", "completion"]`)
	}
	if len(list) == 0 {
		return source.Errorf(v.Pos, "api_check is an empty list").Hintf("write api_check = false for no checks")
	}
	var c source.Complaints
	for _, item := range list {
		if n, ok := item.Int(); ok {
			a.Only = append(a.Only, strconv.FormatInt(n, 10))
		} else if name, ok := item.Any.(string); ok {
			a.Only = append(a.Only, name)
		} else {
			c.Addf(item.Pos, "api_check: %v is not the name or number of a check", item.Plain())
		}
	}
	a.On = true
	return c.Err()
}
