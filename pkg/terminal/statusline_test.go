package terminal

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is written while a line stands at the bottom goes above it.
func TestStatusLine(t *testing.T) {
	var b bytes.Buffer
	l := &StatusLine{Text: &b, Device: &b, Columns: 6}
	l.Set("1 of 3 over")
	require.Equal(t, "1 of ", b.String(), "cut to fit")
	b.Reset()
	fmt.Fprintln(l, "note")
	require.Equal(t, "\r\x1b[Knote\n1 of ", b.String())
	b.Reset()
	l.Set("")
	require.Equal(t, "\r\x1b[K", b.String())
	_, _, ok := Size(l)
	require.False(t, ok)
}
