package container

import (
	"fmt"
	"slices"
	"strings"
)

// Mount is SRC:DST or SRC:DST:OPTIONS.
type Mount struct {
	Source, Target string
	ReadOnly       bool
	Propagation    string // private, slave, shared or one of them with an r before it, "" for the default
}

// parseMount reads a mount. Options stand behind each other with a comma or, as
// pyxis has it, a plus.
func parseMount(s string) (Mount, error) {
	f := strings.Split(s, ":")
	if len(f) < 2 || len(f) > 3 || f[0] == "" || f[1] == "" {
		return Mount{}, fmt.Errorf("mount %q must be SRC:DST or SRC:DST:OPTIONS", s)
	}
	m := Mount{Source: f[0], Target: f[1]}
	if !strings.HasPrefix(m.Source, "/") || !strings.HasPrefix(m.Target, "/") {
		return m, fmt.Errorf("mount %q needs two absolute paths", s)
	}
	if len(f) == 2 {
		return m, nil
	}
	for _, o := range strings.FieldsFunc(f[2], func(r rune) bool { return r == ',' || r == '+' }) {
		switch {
		case o == "ro", o == "rw":
			m.ReadOnly = o == "ro"
		case slices.Contains([]string{"private", "slave", "shared"}, strings.TrimPrefix(o, "r")):
			m.Propagation = o
		default:
			return m, fmt.Errorf("mount %q: unknown option %q (known: ro, rw, private, slave, shared, rprivate, rslave, rshared)", s, o)
		}
	}
	return m, nil
}
