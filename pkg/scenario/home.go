package scenario

import (
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// checkHome refuses values that mean a home folder: they are quoted, so that no shell expands them. Shell
// text is exempt.
func checkHome(path string, v *source.Value, c *source.Complaints) {
	if v == nil || path == "cmd" || strings.HasSuffix(path, "_cmd") || strings.HasSuffix(path, ".cmd") ||
		strings.HasSuffix(path, ".command") {
		return
	}
	switch x := v.Any.(type) {
	case string:
		if source.OfHome(x) {
			c.Add(source.Errorf(v.Pos, "%s is %q, but ~ is not expanded", path, x).Hintf("write the whole path"))
		}
	case *source.Table:
		if strings.HasPrefix(path, "extra_env_vars.") { // where a variable comes from, which is read elsewhere
			return
		}
		for _, key := range x.Keys() {
			checkHome(path+"."+key, x.Get(key), c)
		}
	case []*source.Value:
		for _, e := range x {
			checkHome(path, e, c)
		}
	}
}
