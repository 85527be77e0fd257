package source

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Nearest returns the known word within two edits of word, or "". Case and the
// difference between dash and underscore do not count.
func Nearest(word string, known []string) string {
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

// Suggest writes the hint for an unknown word: the nearest ones and the list. A long list is
// left out when there are near words, and shortened to those that are least unlike otherwise.
func Suggest(word string, known []string) string {
	word = word[:min(len(word), longestWord)]
	sorted := append([]string(nil), known...)
	sort.Strings(sorted)
	near := []string{Nearest(word, sorted)}
	if near[0] == "" {
		near = withParts(word, sorted)
	}
	list := listed(word, sorted)
	switch {
	case len(near) == 0:
		return list
	case len(known) > fewWords:
		return anyOf(near)
	}
	return anyOf(near) + " " + list
}

// longestWord is how many bytes of a word are compared. Whoever sends a longer one, perhaps over the network,
// did not mistype a name, and comparing takes time by the product of the lengths.
const longestWord = 100

// fewWords of a list are named behind near words, too.
const fewWords = 7

// mostListed is how many words of a list are named.
const mostListed = 16

// listed names the known words, or those of a long list that are least unlike a word.
func listed(word string, known []string) string {
	switch {
	case len(known) == 0:
		return "none is known"
	case len(known) <= mostListed:
		return "known: " + strings.Join(known, ", ")
	}
	unlike := make(map[string]int, len(known))
	for _, k := range known {
		unlike[k] = unlikeness(word, k)
	}
	byDistance := slices.Clone(known)
	slices.SortStableFunc(byDistance, func(a, b string) int { return cmp.Compare(unlike[a], unlike[b]) })
	const some = mostListed / 2
	few := byDistance[:some]
	slices.Sort(few)
	return fmt.Sprintf("known: %s and %d more", strings.Join(few, ", "), len(known)-some)
}

// unlikeness is the distance between a word and a known one, or the part of it that is nearest.
func unlikeness(word, known string) int {
	d := distance(fold(word), fold(known))
	for _, part := range parts(known) {
		d = min(d, distance(fold(word), part))
	}
	return d
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

// mostParts is how many words with the same parts are still a help.
const mostParts = 4

// withParts are the known words that have every part of a word, in any order, as tpot and
// p99_tpot are of p99_tpot_ms; without such, those that have parts within an edit of them. There
// are none if there are too many.
func withParts(word string, known []string) []string {
	asked := parts(word)
	for _, most := range []int{0, 1} {
		var list []string
		for _, k := range known {
			has := parts(k)
			missing := slices.ContainsFunc(asked, func(part string) bool {
				return !slices.ContainsFunc(has, func(p string) bool {
					return p == part || len(part) > 3 && distance(p, part) <= most
				})
			})
			if !missing && len(asked) > 0 {
				list = append(list, k)
			}
		}
		if len(list) > 0 && len(list) <= mostParts {
			return list
		}
	}
	return nil
}

// parts are the words of a key, without case.
func parts(key string) []string {
	return strings.FieldsFunc(fold(key), func(r rune) bool { return strings.ContainsRune("_. ", r) })
}

// fold is a word without its case and the difference between dash and underscore.
func fold(word string) string { return strings.ToLower(strings.ReplaceAll(word, "-", "_")) }

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
