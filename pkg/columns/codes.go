package columns

// codePart are the numbers of dictionary entries, by row; 0 is none. They have one byte until a column
// has more than 255 entries.
type codePart struct {
	narrow []*[size]uint8
	wide   []*[size]uint16
	isWide bool
}

func (p *codePart) at(row uint32) uint16 {
	i := int(row >> shift)
	switch {
	case i < len(p.wide):
		if c := p.wide[i]; c != nil {
			return c[row&mask]
		}
	case i < len(p.narrow):
		if c := p.narrow[i]; c != nil {
			return uint16(c[row&mask])
		}
	}
	return 0
}

func (p *codePart) put(row uint32, code uint16) {
	if code > 255 && !p.isWide {
		p.widen()
	}
	if p.isWide {
		p.wide = ensure(p.wide, int(row>>shift))
		p.wide[row>>shift][row&mask] = code
		return
	}
	p.narrow = ensure(p.narrow, int(row>>shift))
	p.narrow[row>>shift][row&mask] = uint8(code)
}

// ensure makes a chunk be there.
func ensure[T any](list []*T, i int) []*T {
	for len(list) <= i {
		list = append(list, nil)
	}
	if list[i] == nil {
		list[i] = new(T)
	}
	return list
}

func (p *codePart) widen() {
	p.isWide = true
	p.wide = make([]*[size]uint16, len(p.narrow))
	for i, c := range p.narrow {
		if c == nil {
			continue
		}
		p.wide[i] = new([size]uint16)
		for row, code := range c {
			p.wide[i][row] = uint16(code)
		}
	}
	p.narrow = nil
}

// chunks is the number of chunks up to the last that has codes.
func (p *codePart) chunks() int { return max(len(p.narrow), len(p.wide)) }

// has reports whether a chunk has codes.
func (p *codePart) has(chunk int) bool {
	return chunk < len(p.narrow) && p.narrow[chunk] != nil || chunk < len(p.wide) && p.wide[chunk] != nil
}

// drop forgets chunks without a code.
func (p *codePart) drop() {
	for i, c := range p.narrow {
		if c != nil && *c == ([size]uint8{}) {
			p.narrow[i] = nil
		}
	}
	for i, c := range p.wide {
		if c != nil && *c == ([size]uint16{}) {
			p.wide[i] = nil
		}
	}
}

// count adds up how often each code stands in rows of a chunk.
func (p *codePart) count(chunk int, rows []uint16, into *counter) {
	switch {
	case !p.has(chunk):
	case p.isWide:
		c := p.wide[chunk]
		for _, r := range rows {
			into.wide[c[r&mask]]++
		}
	default:
		countBytes(p.narrow[chunk], rows, &into.narrow)
	}
}

// countBytes counts in four tables by turns: a processor adds to one place only every few
// cycles, and neighbours often have the same code.
func countBytes(c *[size]uint8, rows []uint16, into *[4][256]uint32) {
	for ; len(rows) >= 4; rows = rows[4:] {
		into[0][c[rows[0]&mask]]++
		into[1][c[rows[1]&mask]]++
		into[2][c[rows[2]&mask]]++
		into[3][c[rows[3]&mask]]++
	}
	for _, r := range rows {
		into[0][c[r&mask]]++
	}
}

// counter counts codes.
type counter struct {
	narrow [4][256]uint32
	wide   []uint32
}

// sums are the counts by code.
func (k *counter) sums(codes int) []int {
	list := make([]int, codes)
	for i := range list {
		if k.wide != nil {
			list[i] = int(k.wide[i])
		} else {
			list[i] = int(k.narrow[0][i] + k.narrow[1][i] + k.narrow[2][i] + k.narrow[3][i])
		}
	}
	return list
}

// match sets the rows of a chunk whose code is in a table of ones and zeros.
func (p *codePart) match(chunk int, table []uint8, out *rowBits) {
	if !p.has(chunk) {
		out.fill(table[0] == 1)
		return
	}
	if p.isWide {
		c := p.wide[chunk]
		for w := range out {
			var b uint64
			for i, code := range c[w*64 : w*64+64] {
				b |= uint64(table[code]) << i
			}
			out[w] = b
		}
		return
	}
	c, table256 := p.narrow[chunk], [256]uint8{}
	copy(table256[:], table)
	for w := range out {
		var b uint64
		for i, code := range c[w*64 : w*64+64] {
			b |= uint64(table256[code]) << (i & 63)
		}
		out[w] = b
	}
}

func (p *codePart) size() int64 {
	n := int64(len(p.narrow)+len(p.wide)) * 8
	for i := range p.chunks() {
		if p.has(i) {
			n += size
			if p.isWide {
				n += size
			}
		}
	}
	return n
}
