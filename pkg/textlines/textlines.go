// Package textlines reads files of short lines that a crash may have cut short, such as samples.
//
//	err := textlines.Each(file, 4<<10, func(line string) error { … })
package textlines

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Each hands over the lines of at most most bytes, in order and without their ends. A last line
// without its end was cut short by a crash and is left out. So are longer lines and those of which
// take says what is wrong with them, but then the error at the end says which was the first.
func Each(r io.Reader, most int, take func(line string) error) error {
	in := bufio.NewReaderSize(r, most)
	var first error
	bad := 0
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		if long {
			err = SkipRest(in)
		}
		switch {
		case errors.Is(err, io.EOF):
			if bad > 1 {
				return fmt.Errorf("%w; %d lines in all were left out", first, bad)
			}
			return first
		case err != nil:
			return fmt.Errorf("line %d: %w", n, err)
		case long:
			err = fmt.Errorf("longer than %d bytes", most)
		default:
			err = take(strings.TrimSuffix(string(line), "\n"))
		}
		if err == nil {
			continue
		}
		if bad++; first == nil {
			first = fmt.Errorf("line %d: %w", n, err)
		}
	}
}

// SkipRest reads to the end of a line.
func SkipRest(in *bufio.Reader) error {
	for {
		_, err := in.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}
