package failure

import (
	"regexp/syntax"
	"strings"
)

// Running every pattern on every line of a 16 MiB window takes minutes. Each
// pattern therefore gives a set of literals of which any match must contain
// one; one automaton (Aho and Corasick, 1975) looks for all of them in one
// pass, without regard to ASCII case, and only lines that contain a literal
// are put to the patterns it belongs to.

// required returns the literals, in lower case, of which every match of the
// pattern contains at least one; nil if there are none worth looking for.
func required(pattern string) []string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	lits := anyOf(re.Simplify())
	if shortest(lits) < 3 {
		return nil // would be found on every line
	}
	return lits
}

func anyOf(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{strings.ToLower(string(re.Rune))}
	case syntax.OpCapture, syntax.OpPlus:
		return anyOf(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return anyOf(re.Sub[0])
		}
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			lits := anyOf(sub)
			if lits == nil {
				return nil
			}
			all = append(all, lits...)
		}
		return all
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if lits := anyOf(sub); shortest(lits) > shortest(best) {
				best = lits
			}
		}
		return best
	}
	return nil
}

func shortest(lits []string) int {
	if len(lits) == 0 {
		return 0
	}
	n := len(lits[0])
	for _, l := range lits {
		n = min(n, len(l))
	}
	return n
}

// An automaton finds words of several sets in one pass.
type automaton struct {
	class [256]uint8 // byte to column; upper case shares the column of lower case
	width int
	next  []uint32 // state*width + column to state*width, with hit set if a word ends there
	sets  [][]int  // by state: the sets of which a word ends here
}

const hit = 1 << 31

type trieNode struct {
	child map[byte]*trieNode
	fail  *trieNode
	sets  []int
	id    uint32
}

func newAutomaton(sets [][]string) *automaton {
	a := &automaton{width: 1} // column 0: bytes that occur in no word
	root := &trieNode{child: map[byte]*trieNode{}}
	nodes := []*trieNode{root}
	for set, words := range sets {
		for _, w := range words {
			at := root
			for i := 0; i < len(w); i++ {
				a.column(w[i])
				to := at.child[w[i]]
				if to == nil {
					to = &trieNode{child: map[byte]*trieNode{}, id: uint32(len(nodes))}
					at.child[w[i]] = to
					nodes = append(nodes, to)
				}
				at = to
			}
			at.sets = append(at.sets, set)
		}
	}
	a.next = make([]uint32, len(nodes)*a.width)
	a.sets = make([][]int, len(nodes))
	for queue := []*trieNode{root}; len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		row := a.next[int(n.id)*a.width:][:a.width]
		if n.fail != nil {
			copy(row, a.next[int(n.fail.id)*a.width:][:a.width])
			n.sets = append(n.sets, n.fail.sets...)
		}
		a.sets[n.id] = n.sets
		for b, to := range n.child {
			to.fail = root
			if n != root {
				to.fail = nodes[row[a.class[b]]/uint32(a.width)]
			}
			row[a.class[b]] = to.id * uint32(a.width)
			queue = append(queue, to)
		}
	}
	for i, state := range a.next {
		if len(a.sets[state/uint32(a.width)]) > 0 {
			a.next[i] |= hit
		}
	}
	return a
}

// column gives the byte a column of its own, shared by both cases.
func (a *automaton) column(b byte) {
	if a.class[b] != 0 {
		return
	}
	a.class[b] = uint8(a.width)
	if b >= 'a' && b <= 'z' {
		a.class[b-'a'+'A'] = uint8(a.width)
	}
	a.width++
}

// find returns the offset behind the first word in data[from:], -1 if there
// is none.
func (a *automaton) find(data []byte, from int) int {
	state := uint32(0)
	for i, b := range data[from:] {
		state = a.next[state+uint32(a.class[b])]
		if state&hit != 0 {
			return from + i + 1
		}
	}
	return -1
}

// all marks the sets of every word in data.
func (a *automaton) all(data []byte, found []bool) {
	state := uint32(0)
	for _, b := range data {
		state = a.next[state&^hit+uint32(a.class[b])]
		if state&hit != 0 {
			for _, s := range a.sets[state&^hit/uint32(a.width)] {
				found[s] = true
			}
		}
	}
}
