package plan

import (
	"slices"
	"strings"
)

// ShortKeys names settings by as many of their last parts as tell them apart:
// tensor_parallel_size for cmd_args.decode.tensor_parallel_size, but
// decode.tensor_parallel_size beside that of prefill.
func ShortKeys(keys []string) []string {
	out := make([]string, len(keys))
	for i, key := range keys {
		if key == NodesSetting {
			out[i] = "num_nodes"
			continue
		}
		rest, short := key, ""
		for short == "" || slices.ContainsFunc(keys,
			func(other string) bool { return other != key && endsWith(other, short) }) {
			head, last, cut := cutLast(rest)
			short = strings.TrimSuffix(last+"."+short, ".")
			if rest = head; !cut {
				break
			}
		}
		out[i] = short
	}
	return out
}

// cutLast parts a key from its last part.
func cutLast(key string) (head, last string, ok bool) {
	i := strings.LastIndexByte(key, '.')
	if i < 0 {
		return "", key, false
	}
	return key[:i], key[i+1:], true
}

func endsWith(key, part string) bool { return key == part || strings.HasSuffix(key, "."+part) }
