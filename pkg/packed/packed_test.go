package packed_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/regular"
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
	require.ErrorIs(t, err, packed.ErrDamaged)
}

func FuzzOpen(f *testing.F) {
	f.Add(pack(f, "text"))
	f.Add([]byte("\xfd7zXZ\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, _, err := packed.Open(fstest.MapFS{"x.xz": {Data: data}}, "x")
		if err != nil {
			require.True(t, errors.Is(err, packed.ErrNoXZ) || errors.Is(err, regular.ErrLarge), err)
			return
		}
		io.Copy(io.Discard, io.LimitReader(in, 1<<20)) // any end will do
		require.NoError(t, in.Close())
	})
}

// zeros packs so many bytes of nothing, in blocks so that no memory is taken.
func zeros(t testing.TB, size int64) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := xz.WriterConfig{CheckSum: xz.CRC32}.NewWriter(&b)
	require.NoError(t, err)
	_, err = io.Copy(w, io.LimitReader(nothing{}, size))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

type nothing struct{}

func (nothing) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// What was made in order to be large ends long before it is: several bombs one
// after the other are one file to xz.
func TestBombs(t *testing.T) {
	one := zeros(t, 16<<20)
	dir := fstest.MapFS{"bomb.xz": {Data: bytes.Repeat(one, 256)}, "large.xz": {Data: one}}
	f, _, err := packed.Open(dir, "bomb")
	require.NoError(t, err)
	defer f.Close()
	n, err := io.Copy(io.Discard, f)
	require.ErrorIs(t, err, regular.ErrLarge)
	require.ErrorContains(t, err, "MiB come out of")
	require.Less(t, n, int64(300<<20))
	f, _, err = packed.Open(dir, "large")
	require.NoError(t, err)
	defer f.Close()
	n, err = io.Copy(io.Discard, f)
	require.NoError(t, err, "a log of one line again and again is no bomb")
	require.Equal(t, int64(16<<20), n)
	data, name, err := packed.Read(dir, "large", 1<<20)
	require.ErrorIs(t, err, regular.ErrLarge)
	require.Equal(t, "large.xz", name)
	require.Empty(t, data)
}

// A file of some bytes may ask for a dictionary of gigabytes.
func TestDictionaries(t *testing.T) {
	for bits, want := range map[byte]error{0x1c: nil, 0x1d: regular.ErrLarge, 0x27: regular.ErrLarge, 0x28: regular.ErrLarge} { // 64 MiB, 96 MiB, 3 GiB, 4 GiB
		x := pack(t, "text")
		at := bytes.Index(x, []byte{0x21, 1})
		x[at+2] = bits
		head := x[12 : 12+4*(int(x[12])+1)]
		binary.LittleEndian.PutUint32(head[len(head)-4:], crc32.ChecksumIEEE(head[:len(head)-4]))
		_, _, err := packed.Open(fstest.MapFS{"x.xz": {Data: x}}, "x")
		if want == nil {
			require.NoError(t, err, bits)
		} else {
			require.ErrorIs(t, err, want, bits)
		}
	}
}

func TestRead(t *testing.T) {
	dir := fstest.MapFS{"plain": {Data: []byte("12345")}, "packed.xz": {Data: pack(t, "12345")}, "cut.xz": {Data: pack(t, strings.Repeat("x", 100))[:60]}}
	for _, name := range []string{"plain", "packed"} {
		data, _, err := packed.Read(dir, name, 5)
		require.NoError(t, err)
		require.Equal(t, "12345", string(data))
		_, _, err = packed.Read(dir, name, 4)
		require.ErrorIs(t, err, regular.ErrLarge)
		require.ErrorContains(t, err, name)
	}
	_, _, err := packed.Read(dir, "cut", 100)
	require.ErrorIs(t, err, packed.ErrDamaged)
	_, _, err = packed.Read(dir, "none", 100)
	require.ErrorIs(t, err, fs.ErrNotExist)
}
