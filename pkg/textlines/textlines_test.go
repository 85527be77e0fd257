package textlines

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func read(r io.Reader) (lines []string, err error) {
	err = Each(r, 16, func(line string) error {
		if strings.HasPrefix(line, "bad") {
			return errors.New("no sample")
		}
		lines = append(lines, line)
		return nil
	})
	return lines, err
}

// What is wrong with a line costs that line, and the first one is named.
func TestEach(t *testing.T) {
	long := strings.Repeat("x", 100)
	for text, want := range map[string]struct {
		lines []string
		err   string
	}{
		"":                               {nil, ""},
		"a\nb\n":                         {[]string{"a", "b"}, ""},
		"a\ncut":                         {[]string{"a"}, ""},
		"a\nbad 1\nb\n":                  {[]string{"a", "b"}, "line 2: no sample"},
		"bad 1\na\nbad 2\n":              {[]string{"a"}, "line 1: no sample; 2 lines in all were left out"},
		"a\n" + long + "\nb\n":           {[]string{"a", "b"}, "line 2: longer than 16 bytes"},
		"a\n" + long:                     {[]string{"a"}, ""},
		"bad\n" + long + "\nbad\nb\ncut": {[]string{"b"}, "line 1: no sample; 3 lines in all were left out"},
	} {
		lines, err := read(strings.NewReader(text))
		require.Equal(t, want.lines, lines, text)
		if want.err == "" {
			require.NoError(t, err, text)
		} else {
			require.EqualError(t, err, want.err, text)
		}
	}
}

// A file that cannot be read ends the reading, also if every read fails again.
func TestEachOfABrokenFile(t *testing.T) {
	broken := errors.New("input/output error")
	lines, err := read(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)))
	require.Equal(t, []string{"a"}, lines)
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "line 2: ")
}
