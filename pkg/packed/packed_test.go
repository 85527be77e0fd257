package packed_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/tier"
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
	tier.Alone(t)
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

// greedy makes a block ask for a dictionary, by the bits of section 5.3.1; at is where its
// header begins.
func greedy(x []byte, at int, bits byte) {
	head := x[at : at+4*(int(x[at])+1)]
	head[bytes.Index(head, []byte{0x21, 1})+2] = bits
	binary.LittleEndian.PutUint32(head[len(head)-4:], crc32.ChecksumIEEE(head[:len(head)-4]))
}

// A block behind the first, and a stream behind the first, get no larger dictionary than the
// first: what comes before them is read.
func TestLaterDictionaries(t *testing.T) {
	var b bytes.Buffer
	w, err := xz.WriterConfig{BlockSize: 1000}.NewWriter(&b)
	require.NoError(t, err)
	text := strings.Repeat("some text\n", 300)
	_, err = w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	three := b.Bytes()
	begin := bytes.Clone(three[12 : 12+4*(int(three[12])+1)]) // the headers of equal blocks are equal
	require.Equal(t, 3, bytes.Count(three, begin))
	two := slices.Concat(pack(t, "text"), make([]byte, 8), pack(t, "more"))

	for name, c := range map[string]struct {
		whole []byte
		at    int
		text  string // before what is greedy
		all   string
	}{
		"block":  {three, bytes.LastIndex(three, begin), text[:2000], text},
		"stream": {two, len(two) - len(pack(t, "more")) + 12, "text", "textmore"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := packed.NewReader(bytes.NewReader(c.whole))
			require.NoError(t, err)
			data, err := io.ReadAll(r)
			require.NoError(t, err)
			require.Equal(t, c.all, string(data))
			size, err := packed.Scan(bufio.NewReader(bytes.NewReader(c.whole)), 1<<20, regular.ErrLarge)
			require.NoError(t, err)
			require.Equal(t, int64(len(c.all)), size)

			evil := bytes.Clone(c.whole)
			greedy(evil, c.at, 0x27)
			r, err = packed.NewReader(bytes.NewReader(evil))
			require.NoError(t, err)
			data, err = io.ReadAll(r)
			require.ErrorIs(t, err, regular.ErrLarge)
			require.ErrorContains(t, err, "its dictionary is larger than 64 MiB")
			require.Equal(t, c.text, string(data))
			_, err = packed.Scan(bufio.NewReader(bytes.NewReader(evil)), 1<<20, regular.ErrLarge)
			require.ErrorIs(t, err, regular.ErrLarge)
		})
	}
}

// An error of the disk is no damage, and a file without a checksum can be read, but not restored.
func TestOtherErrors(t *testing.T) {
	broken := errors.New("the disk")
	x := pack(t, strings.Repeat("x", 100))
	r, err := packed.NewReader(io.MultiReader(bytes.NewReader(x[:len(x)-40]), iotest.ErrReader(broken)))
	require.NoError(t, err)
	_, err = io.ReadAll(r)
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, packed.ErrDamaged)

	var b bytes.Buffer
	w, err := xz.WriterConfig{NoCheckSum: true}.NewWriter(&b)
	require.NoError(t, err)
	_, err = w.Write([]byte("text"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	r, err = packed.NewReader(bytes.NewReader(b.Bytes()))
	require.NoError(t, err)
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "text", string(data))
	_, err = packed.Scan(bufio.NewReader(bytes.NewReader(b.Bytes())), 100, regular.ErrLarge)
	require.ErrorContains(t, err, "no checksum that is known")
}

// A file of some bytes may ask for a dictionary of gigabytes.
func TestDictionaries(t *testing.T) {
	// 64 MiB, 96 MiB, 3 GiB, 4 GiB
	for bits, want := range map[byte]error{0x1c: nil, 0x1d: regular.ErrLarge, 0x27: regular.ErrLarge,
		0x28: regular.ErrLarge} {
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
	dir := fstest.MapFS{"plain": {Data: []byte("12345")}, "packed.xz": {Data: pack(t, "12345")},
		"cut.xz": {Data: pack(t, strings.Repeat("x", 100))[:60]}}
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
