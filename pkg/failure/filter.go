package failure

import (
	"regexp/syntax"
	"slices"
	"strings"
)

// Running every pattern on every line of a large log takes minutes. Each
// pattern therefore gives a set of literals of which any match must contain
// one; one automaton (Aho and Corasick, 1975) looks for all of them in one
// pass, without regard to ASCII case, and only lines that contain a literal
// are put to the patterns it belongs to.

// chatter is what healthy logs are full of. A literal that occurs in it would
// be found on every line.
const chatter = `info:     127.0.0.1:34302 - "post /v1/completions http/1.1" 200 ok "get /health http/1.1" "get /metrics http/1.1"
(enginecore pid=7) info 11-21 10:00:00 [core.py:133] engine (apiserver pid=7) warning error: error task tasks node model server
avg prompt throughput: 1.0 tokens/s, running: 1 reqs, waiting: 0 reqs, gpu kv cache usage: 0.0%, prefix cache hit rate: 0.0%`

const (
	// mostClass is the largest set of characters that is spelled out, and
	// mostLiterals how many literals may come of that.
	mostClass, mostLiterals = 12, 24
)

// required returns the literals, in lower case, of which every match of the
// pattern contains at least one; nil if there are none worth looking for.
func required(pattern string) []string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	lits := anyOf(re.Simplify())
	if worth(lits) == 0 {
		return nil
	}
	return lits
}

func anyOf(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral, syntax.OpCharClass:
		return spelled(re)
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
		return bestOf(re.Sub)
	}
	return nil
}

// bestOf returns the literals of the part of a sequence that is worth most;
// neighbours that can be spelled out count as one part.
func bestOf(parts []*syntax.Regexp) []string {
	var most, run []string
	consider := func(lits []string) {
		if worth(lits) > worth(most) {
			most = lits
		}
	}
	for _, part := range parts {
		lits := spelled(part)
		switch {
		case lits == nil:
			run = nil
			consider(anyOf(part))
			continue
		case run == nil || len(run)*len(lits) > mostLiterals:
			run = lits
		default:
			run = crossed(run, lits)
		}
		consider(run)
	}
	return most
}

// spelled returns every text that a literal or a small set of characters
// matches, in lower case, nil for anything else.
func spelled(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpCapture:
		return spelled(re.Sub[0])
	case syntax.OpLiteral:
		return []string{strings.ToLower(string(re.Rune))}
	case syntax.OpCharClass:
		var all []string
		for i := 0; i < len(re.Rune); i += 2 {
			if re.Rune[i+1]-re.Rune[i] >= mostClass || re.Rune[i+1] > 0x7f {
				return nil
			}
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				all = append(all, strings.ToLower(string(r)))
			}
		}
		slices.Sort(all)
		if all = slices.Compact(all); len(all) <= mostClass {
			return all
		}
	}
	return nil
}

func crossed(heads, tails []string) []string {
	all := make([]string, 0, len(heads)*len(tails))
	for _, h := range heads {
		for _, t := range tails {
			all = append(all, h+t)
		}
	}
	return all
}

// worth says how well a set of literals tells lines apart: the length of its
// shortest, less for what is in every log, 0 for what cannot be looked for.
func worth(lits []string) int {
	if len(lits) == 0 {
		return 0
	}
	least := len(lits[0]) * 2
	for _, l := range lits {
		n := len(l) * 2
		if strings.Contains(chatter, l) {
			n = 1
		}
		if len(l) < 3 {
			n = 0
		}
		least = min(least, n)
	}
	return least
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
