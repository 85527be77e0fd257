package archive

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The container of xz 1.2.0 (tukaani.org/xz/xz-file-format.txt) and the chunks of
// LZMA2 in it say how much comes out before anything is unpacked, and the decoder
// goes by the same numbers.

// dictLimit is the largest dictionary that is granted: that of xz -9. The decoder
// takes at least minDict for each block.
const (
	dictLimit = 64 << 20
	minDict   = 8 << 20
	// dictSlack is how much the dictionaries of all blocks may take beyond what
	// comes out: many empty blocks would cost time without end.
	dictSlack = 1 << 30
)

var (
	errForm   = errors.New("not an xz file, or a damaged one")
	xzMagic   = []byte("\xfd7zXZ\x00")
	checkSize = map[byte]int{1: 4, 4: 8, 10: 32} // CRC32, CRC64, SHA-256
)

type scanner struct {
	*bufio.Reader
	limit, total, dicts int64
}

// scan returns how many bytes an xz file unpacks to, without unpacking it.
func scan(r *bufio.Reader, limit int64) (int64, error) {
	s := &scanner{Reader: r, limit: limit}
	for streams := 0; ; {
		head, err := s.take(4)
		switch {
		case err == io.EOF && streams > 0:
			if s.dicts > s.total+dictSlack {
				return 0, fmt.Errorf("%w: its blocks want %d bytes of memory for %d bytes", ErrLimit, s.dicts, s.total)
			}
			return s.total, nil
		case err != nil:
			return 0, errForm
		case streams > 0 && bytes.Equal(head, make([]byte, 4)):
			continue // padding
		}
		if err := s.stream(head); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = fmt.Errorf("%w: it ends too early", errForm)
			}
			return 0, err
		}
		streams++
	}
}

func (s *scanner) take(n int) ([]byte, error) {
	p := make([]byte, n)
	_, err := io.ReadFull(s, p)
	return p, err
}

func (s *scanner) skip(n int) error {
	_, err := s.Discard(n)
	return err
}

// stream goes through one stream, whose first four bytes are head.
func (s *scanner) stream(head []byte) error {
	rest, err := s.take(8)
	if err != nil {
		return err
	}
	check, known := checkSize[rest[3]]
	if !bytes.Equal(append(head, rest[:2]...), xzMagic) || rest[2] != 0 {
		return errForm
	}
	if !known {
		return fmt.Errorf("%w: it has no checksum that is known (%d)", errForm, rest[3])
	}
	for blocks := uint64(0); ; blocks++ {
		size, err := s.ReadByte()
		if err != nil {
			return err
		}
		if size == 0 {
			return s.index(blocks)
		}
		if err := s.block(int(size), check); err != nil {
			return err
		}
	}
}

// block goes through one block.
func (s *scanner) block(size, check int) error {
	head, err := s.take(size*4 + 3)
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
		return fmt.Errorf("%w: its dictionary is larger than %d MiB", ErrLimit, dictLimit>>20)
	}
	s.dicts += max(minDict, int64(2|bits&1)<<(bits/2+11))
	n, err := s.chunks()
	if err != nil {
		return err
	}
	return s.skip((4-n%4)%4 + check)
}

// chunks goes through the LZMA2 data of a block and returns their size modulo 4.
func (s *scanner) chunks() (int, error) {
	packed := 0
	for {
		control, err := s.ReadByte()
		if err != nil {
			return 0, err
		}
		packed++
		if control == 0 {
			return packed, nil
		}
		size, body, head := 0, 0, 2
		switch {
		case control >= 0x80:
			head = 4
			if control >= 0xc0 {
				head = 5 // properties
			}
		case control > 2:
			return 0, errForm
		}
		h, err := s.take(head)
		if err != nil {
			return 0, err
		}
		size = int(h[0])<<8 + int(h[1]) + 1
		body = size
		if control >= 0x80 {
			size += int(control&0x1f) << 16
			body = int(h[2])<<8 + int(h[3]) + 1
		}
		if s.total += int64(size); s.total > s.limit {
			return 0, fmt.Errorf("%w: more than %d bytes", ErrLimit, s.limit)
		}
		if err := s.skip(body); err != nil {
			return 0, err
		}
		packed = (packed + head + body) % 4
	}
}

// index goes through the end of a stream, behind the index's first byte.
func (s *scanner) index(blocks uint64) error {
	size := 1
	number := func() (uint64, error) {
		n, err := binary.ReadUvarint(s)
		size += uvarintLen(n)
		return n, err
	}
	records, err := number()
	if err != nil {
		return err
	}
	if records != blocks {
		return fmt.Errorf("%w: its index counts %d blocks, and there are %d", errForm, records, blocks)
	}
	for range 2 * records {
		if _, err := number(); err != nil {
			return err
		}
	}
	const crc, footer = 4, 12
	return s.skip((4-size%4)%4 + crc + footer)
}

func uvarintLen(n uint64) int { return len(binary.AppendUvarint(nil, n)) }
