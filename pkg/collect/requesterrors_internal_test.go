package collect

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// Of requests only those that failed are looked at, and their lines keep their numbers.
func TestFailedOnly(t *testing.T) {
	const failed = `{"metadata":{},"error":{"code":503,"type":"Service Unavailable","message":"x"}}`
	long := `{"error":{"message":"` + strings.Repeat("x", 2*maxRequest) + `"}}`
	text := strings.Join([]string{`{"metadata":{},"error":null}`, failed, long, `{}`, failed}, "\n")
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "by byte": iotest.OneByteReader,
	} {
		got, err := io.ReadAll(&failedOnly{from: wrap(strings.NewReader(text))})
		require.NoError(t, err, name)
		require.Equal(t, "\n"+failed+"\n\n\n"+failed, string(got), name)
	}
}

func FuzzFailedOnly(f *testing.F) {
	f.Add("{\"error\":null}\n{\"error\":{\"code\":503}}\n")
	f.Add("\n\n{\"error\":{")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := io.ReadAll(&failedOnly{from: strings.NewReader(text)})
		require.NoError(t, err)
		require.LessOrEqual(t, strings.Count(text, "\n"), strings.Count(string(got), "\n"))
		for line := range strings.Lines(string(got)) {
			require.True(t, line == "\n" || strings.Contains(line, `"error":{`), "%q", line)
		}
	})
}
