package scenario

import (
	"math"
	"strconv"

	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/validity"
)

// Accept is [Tests.accept]: thresholds of the checks by key, as result.Thresholds
// lists them.
type Accept map[string]float64

// UnmarshalSource reads the table, and refuses keys that no check has and values out
// of range.
func (a *Accept) UnmarshalSource(v *source.Value) error {
	t, ok := v.Any.(*source.Table)
	if !ok {
		return source.Errorf(v.Pos, "accept must be a table, not %s", v.Describe()).
			Hintf("write thresholds below [Tests.accept]")
	}
	known := map[string]validity.Threshold{}
	var keys []string
	for _, x := range validity.Thresholds() {
		known[x.Key] = x
		keys = append(keys, x.Key)
	}
	var c source.Complaints
	set := Accept{}
	for _, key := range t.Keys() {
		x, ok := known[key]
		n, number := t.Get(key).Float()
		switch {
		case !ok:
			c.Add(source.Errorf(t.PosOf(key), "accept: there is no threshold %q", key).
				Hintf("%s", source.Suggest(key, keys)))
		case !number:
			c.Addf(t.PosOf(key), "accept.%s must be a number (%s), not %s", key, x.Unit, t.Get(key).Describe())
		case !(n >= x.Min && n <= x.Max):
			c.Add(source.Errorf(t.PosOf(key), "accept.%s is %v, must be %v to %v (%s)", key, n, spelled(x.Min),
				spelled(x.Max), x.Unit).
				Hintf("%s; default %s", x.Means, spelled(x.Default)))
		case x.Whole && n != math.Trunc(n):
			c.Addf(t.PosOf(key), "accept.%s is %v, must be a whole number (%s)", key, n, x.Unit)
		default:
			set[key] = n
		}
	}
	*a = set
	return c.Err()
}

func spelled(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
