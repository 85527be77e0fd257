package packed

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/profllm/profllm/pkg/regular"
)

// The container of xz 1.2.0 (tukaani.org/xz/xz-file-format.txt) and the chunks of
// LZMA2 in it say how much comes out before anything is unpacked, and the decoder
// goes by the same numbers.

const (
	// dictLimit is the largest dictionary that is granted, to each block: that of xz -9.
	// The decoder takes at least minDict for each.
	dictLimit = 64 << 20
	minDict   = 8 << 20
	// dictSlack is how much the dictionaries of all blocks may take beyond what
	// comes out: many empty blocks would cost time without end.
	dictSlack = 1 << 30
)

var (
	errForm   = errors.New("not an xz file, or a damaged one")
	xzMagic   = []byte("\xfd7zXZ\x00")
	checkSize = map[byte]int{0: 0, 1: 4, 4: 8, 10: 32} // none, CRC32, CRC64, SHA-256
)

// Scan returns how many bytes an xz file unpacks to, without unpacking it. One that
// asks for too much memory, or unpacks to more than limit, is the error large. One without a
// checksum is refused as damaged.
func Scan(r *bufio.Reader, limit int64, large error) (int64, error) {
	s := &scanner{in: r, limit: limit, large: large, checked: true}
	for {
		switch err := s.step(); {
		case errors.Is(err, io.EOF):
			if s.dicts > s.total+dictSlack {
				return 0, fmt.Errorf("%w: its blocks want %d bytes of memory for %d bytes", s.large, s.dicts, s.total)
			}
			return s.total, nil
		case err != nil:
			return 0, err
		}
	}
}

// scanner goes through an xz file, a part with each step.
type scanner struct {
	in      *bufio.Reader
	limit   int64
	large   error // wraps what is more than is granted
	checked bool  // without a checksum is an error
	keep    bool  // what was gone through, in kept
	kept    []byte
	total   int64 // bytes that come out of what was gone through
	dicts   int64 // of all blocks, in bytes

	next    func(*scanner) error // nil: the beginning of a stream
	streams int
	check   int    // size of a block's checksum
	blocks  uint64 // of this stream
	packed  int    // bytes of this block, modulo 4
	index   int    // bytes of the index, modulo 4
	records uint64 // numbers of the index that are still to come
}

// step goes through the next part: the beginning of a stream or a block, a chunk, some
// of an index. Behind the last stream it returns io.EOF.
func (s *scanner) step() error {
	if s.next == nil {
		return s.stream()
	}
	err := s.next(s)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: it ends too early", errForm)
	}
	return err
}

func (s *scanner) take(n int) ([]byte, error) {
	p := make([]byte, n)
	got, err := io.ReadFull(s.in, p)
	if s.keep {
		s.kept = append(s.kept, p[:got]...)
	}
	return p, err
}

func (s *scanner) skip(n int) error {
	if s.keep {
		_, err := s.take(n)
		return err
	}
	_, err := s.in.Discard(n)
	return err
}

// ReadByte is for numbers.
func (s *scanner) ReadByte() (byte, error) {
	b, err := s.in.ReadByte()
	if err == nil && s.keep {
		s.kept = append(s.kept, b)
	}
	return b, err
}

// stream goes through the beginning of a stream, or through padding before it.
func (s *scanner) stream() error {
	head, err := s.take(4)
	switch {
	case err == io.EOF && s.streams > 0:
		return io.EOF
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errForm
	case err != nil:
		return err
	case s.streams > 0 && bytes.Equal(head, make([]byte, 4)):
		return nil
	}
	s.next = (*scanner).rest
	if !bytes.Equal(head, xzMagic[:4]) {
		s.next = func(*scanner) error { return errForm }
	}
	return s.step()
}

// rest goes through what follows the first four bytes of a stream.
func (s *scanner) rest() error {
	head, err := s.take(8)
	if err != nil {
		return err
	}
	check, known := checkSize[head[3]]
	if !bytes.Equal(head[:2], xzMagic[4:]) || head[2] != 0 {
		return errForm
	}
	if !known || check == 0 && s.checked {
		return fmt.Errorf("%w: it has no checksum that is known (%d)", errForm, head[3])
	}
	s.check, s.blocks, s.next = check, 0, (*scanner).block
	return nil
}

// block goes through the beginning of a block, or of the index.
func (s *scanner) block() error {
	size, err := s.ReadByte()
	if err != nil {
		return err
	}
	if size == 0 {
		return s.indexed()
	}
	head, err := s.take(int(size)*4 + 3)
	if err != nil {
		return err
	}
	flags, at := head[0], bytes.NewReader(head[1:])
	for bit := byte(0x40); bit != 0; bit <<= 1 {
		if flags&bit != 0 {
			if _, err := binary.ReadUvarint(at); err != nil { // a size, which the chunks say as well
				return errForm
			}
		}
	}
	filter := make([]byte, 3)
	if _, err := io.ReadFull(at, filter); err != nil || flags&0x3f != 0 || filter[0] != 0x21 || filter[1] != 1 {
		return fmt.Errorf("%w: its filter is not LZMA2 alone", errForm)
	}
	bits := filter[2]
	if bits > 40 || int64(2|bits&1)<<(bits/2+11) > dictLimit {
		return fmt.Errorf("%w: its dictionary is larger than %d MiB", s.large, dictLimit>>20)
	}
	s.dicts += max(minDict, int64(2|bits&1)<<(bits/2+11))
	s.blocks, s.packed, s.next = s.blocks+1, 0, (*scanner).chunk
	return nil
}

// chunk goes through a chunk of LZMA2, or the end of a block.
func (s *scanner) chunk() error {
	control, err := s.ReadByte()
	if err != nil {
		return err
	}
	s.packed++
	if control == 0 {
		s.next = (*scanner).block
		return s.skip((4-s.packed%4)%4 + s.check)
	}
	size, body, head := 0, 0, 2
	switch {
	case control >= 0x80:
		head = 4
		if control >= 0xc0 {
			head = 5 // properties
		}
	case control > 2:
		return errForm
	}
	h, err := s.take(head)
	if err != nil {
		return err
	}
	size = int(h[0])<<8 + int(h[1]) + 1
	body = size
	if control >= 0x80 {
		size += int(control&0x1f) << 16
		body = int(h[2])<<8 + int(h[3]) + 1
	}
	if s.total += int64(size); s.total > s.limit {
		return fmt.Errorf("%w: more than %d bytes", s.large, s.limit)
	}
	s.packed = (s.packed + head + body) % 4
	return s.skip(body)
}

// number goes through a number of the index.
func (s *scanner) number() (uint64, error) {
	n, err := binary.ReadUvarint(s)
	s.index = (s.index + len(binary.AppendUvarint(nil, n))) % 4
	return n, err
}

// indexed goes through the beginning of an index, behind its first byte.
func (s *scanner) indexed() error {
	s.index = 1
	records, err := s.number()
	if err != nil {
		return err
	}
	if records != s.blocks {
		return fmt.Errorf("%w: its index counts %d blocks, and there are %d", errForm, records, s.blocks)
	}
	s.records, s.next = 2*records, (*scanner).record
	return nil
}

// record goes through a number of the index, or the end of the stream.
func (s *scanner) record() error {
	if s.records > 0 {
		s.records--
		_, err := s.number()
		return err
	}
	const crc, footer = 4, 12
	s.next = nil
	s.streams++
	err := s.skip((4-s.index%4)%4 + crc + footer)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// checked is an xz file as its decoder reads it: each part only after it was gone through,
// so that none can ask for more than is granted.
type checked struct {
	scanner
	from *noted
	n    int64 // bytes read
	err  error
}

func newChecked(r io.Reader, limit int64) *checked {
	from := &noted{r: r}
	return &checked{scanner: scanner{in: bufio.NewReader(from), limit: limit, large: regular.ErrLarge, keep: true},
		from: from}
}

// advance goes through the next part.
func (c *checked) advance() error {
	if c.err == nil {
		c.err = c.step()
	}
	return c.err
}

// Read returns what was gone through. What is damaged is up to the decoder, which gets it
// and says where.
func (c *checked) Read(p []byte) (int, error) {
	for len(c.kept) == 0 {
		if err := c.advance(); err != nil && len(c.kept) == 0 {
			return 0, err
		}
	}
	n := copy(p, c.kept)
	c.kept = c.kept[n:]
	c.n += int64(n)
	return n, nil
}

// noted keeps an error that is not the end.
type noted struct {
	r   io.Reader
	err error
}

func (r *noted) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}
