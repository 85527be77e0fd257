package source

import "strings"

// withNUL is where a table has a key or a text with a NUL byte, which no argument, variable or
// path can have.
func withNUL(t *Table) (pos Pos, found bool) {
	for _, key := range t.Keys() {
		v := t.Get(key)
		if strings.ContainsRune(key, 0) {
			return v.Pos, true
		}
		if pos, found = valueWithNUL(v); found {
			return pos, true
		}
	}
	return Pos{}, false
}

func valueWithNUL(v *Value) (pos Pos, found bool) {
	switch x := v.Any.(type) {
	case string:
		return v.Pos, strings.ContainsRune(x, 0)
	case *Table:
		return withNUL(x)
	case []*Value:
		for _, e := range x {
			if pos, found = valueWithNUL(e); found {
				return pos, true
			}
		}
	}
	return Pos{}, false
}
