package source

import (
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Nearest returns the known word within two edits of word, or "". Case and the
// difference between dash and underscore do not count.
func Nearest(word string, known []string) string {
	fold := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "_")) }
	best, dist := "", 3
	sorted := append([]string(nil), known...)
	sort.Strings(sorted)
	for _, k := range sorted {
		if d := distance(fold(word), fold(k)); d < dist && d < len(k) {
			best, dist = k, d
		}
	}
	return best
}

// Suggest writes the hint for an unknown word: the nearest one and the list. A
// long list is left out when there is a near word.
func Suggest(word string, known []string) string {
	sorted := append([]string(nil), known...)
	sort.Strings(sorted)
	hint := "known: " + strings.Join(sorted, ", ")
	if len(known) == 0 {
		hint = "none is known"
	}
	n := Nearest(word, known)
	switch {
	case n != "" && len(known) > 10:
		return "did you mean \"" + n + "\"?"
	case n != "":
		return "did you mean \"" + n + "\"? " + hint
	}
	parts := withPart(word, sorted)
	switch {
	case len(parts) == 0 || len(parts) > mostParts:
		return hint
	case len(known) > 10:
		return anyOf(parts)
	}
	return anyOf(parts) + " " + hint
}

// anyOf asks which of some words was meant.
func anyOf(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	last := len(quoted) - 1
	if last == 0 {
		return "did you mean " + quoted[0] + "?"
	}
	return "did you mean " + strings.Join(quoted[:last], ", ") + " or " + quoted[last] + "?"
}

// mostParts is how many words with one part are still a help.
const mostParts = 4

// withPart are the known words of which word is one part, as tpot of median_tpot_ms.
func withPart(word string, known []string) []string {
	apart := func(r rune) bool { return strings.ContainsRune("_-. ", r) }
	var list []string
	for _, k := range known {
		if slices.ContainsFunc(strings.FieldsFunc(k, apart),
			func(part string) bool { return strings.EqualFold(part, word) }) {
			list = append(list, k)
		}
	}
	return list
}

// distance is the number of single-byte insertions, deletions, replacements and
// swaps of neighbours between a and b.
func distance(a, b string) int {
	prev2, prev := []int(nil), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur := make([]int, len(b)+1)
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev = prev, cur
	}
	return prev[len(b)]
}
