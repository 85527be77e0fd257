package packed_test

import (
	"bytes"
	"io"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/packed"
)

func pack(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := xz.NewWriter(&b)
	require.NoError(t, err)
	_, err = w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestOpen(t *testing.T) {
	x := pack(t, "[1]")
	dir := fstest.MapFS{
		"plain.json": {Data: []byte("[2]")}, "plain.json.xz": {Data: x}, "packed.json.xz": {Data: x},
		"bad.json.xz": {Data: []byte("no")}, "cut.json.xz": {Data: x[:len(x)-30]},
	}
	for name, want := range map[string][2]string{
		"plain.json": {"plain.json", "[2]"}, "packed.json": {"packed.json.xz", "[1]"}, "packed.json.xz": {"packed.json.xz", "[1]"},
	} {
		f, found, err := packed.Open(dir, name)
		require.NoError(t, err)
		data, err := io.ReadAll(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.Equal(t, want, [2]string{found, string(data)})
	}
	_, name, err := packed.Open(dir, "none.json")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, "none.json", name)
	_, name, err = packed.Open(dir, "bad.json")
	require.ErrorIs(t, err, packed.ErrNoXZ)
	require.Equal(t, "bad.json.xz", name)
	f, _, err := packed.Open(dir, "cut.json")
	require.NoError(t, err)
	_, err = io.ReadAll(f)
	require.Error(t, err)
}

func FuzzOpen(f *testing.F) {
	f.Add(pack(f, "text"))
	f.Add([]byte("\xfd7zXZ\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, _, err := packed.Open(fstest.MapFS{"x.xz": {Data: data}}, "x")
		if err != nil {
			require.ErrorIs(t, err, packed.ErrNoXZ)
			return
		}
		io.Copy(io.Discard, io.LimitReader(in, 1<<20)) // any end will do
		require.NoError(t, in.Close())
	})
}
