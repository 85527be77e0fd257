package plan

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseGPUs reads local GPU ids: "0,1,2,3", "0-3", spaces allowed. The order is
// kept; an id may stand once.
func ParseGPUs(s string) ([]int, error) {
	var ids []int
	seen := map[int]bool{}
	for _, item := range strings.Split(s, ",") {
		lo, hi, isRange := strings.Cut(strings.TrimSpace(item), "-")
		if !isRange {
			hi = lo
		}
		a, errA := strconv.ParseUint(strings.TrimSpace(lo), 10, 10)
		b, errB := strconv.ParseUint(strings.TrimSpace(hi), 10, 10)
		if errA != nil || errB != nil || b < a {
			return nil, fmt.Errorf("%q is not a GPU id or a range such as 0-3", item)
		}
		for id := int(a); id <= int(b); id++ {
			if seen[id] {
				return nil, fmt.Errorf("GPU %d is named twice in %q", id, s)
			}
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// FormatGPUs writes ids as CUDA_VISIBLE_DEVICES wants them.
func FormatGPUs(ids []int) string {
	s := make([]string, len(ids))
	for i, id := range ids {
		s[i] = strconv.Itoa(id)
	}
	return strings.Join(s, ",")
}

// CountGPUs returns 0 … n-1.
func CountGPUs(n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i
	}
	return ids
}

// SplitGPUs halves ids between prefill and decode; decode gets the odd one.
func SplitGPUs(ids []int) (prefill, decode []int) {
	return ids[:len(ids)/2], ids[len(ids)/2:]
}
