package archive_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/archive"
	"github.com/profllm/profllm/pkg/await"
)

// victim is a directory that this program, started again, archives to be killed;
// with into it is an archive, and unpacked there.
const (
	victim = "PROFLLM_TEST_ARCHIVE"
	into   = "PROFLLM_TEST_RESTORE"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victim); dir != "" {
		var err error
		if parent := os.Getenv(into); parent != "" {
			_, err = archive.Restore(context.Background(), dir, parent, archive.Options{})
		} else {
			_, err = archive.Write(context.Background(), dir, dir+archive.Suffix)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// tree makes a directory like that of a run, with what is awkward about names.
func tree(t testing.TB) string {
	dir := filepath.Join(t.TempDir(), "qwen_2026-11-22")
	long := strings.Repeat("long", 40)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "raw", long, "deep"), 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "empty"), 0o750))
	random := make([]byte, 40_000)
	for i := range random {
		random[i] = byte(rand.Int())
	}
	for name, content := range map[string]string{
		"plan.json": "{}\n", "raw/bench.json": strings.Repeat(`{"ttft": 0.1}`, 5000), "raw/random": string(random), "raw/none": "",
		"raw/" + long + "/deep/x": "x", "übung": "ü", "a line\nand one more": "y", " blank ": "z",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	require.NoError(t, os.Chmod(filepath.Join(dir, "raw/random"), 0o400))
	require.NoError(t, os.Chmod(filepath.Join(dir, "plan.json"), 0o755))
	for link, to := range map[string]string{
		"bench.json": "raw/bench.json", "raw/up": "../plan.json", "raw/there": long, "dangling": "raw/gone", "raw/self": "self",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	past := time.Date(2025, 2, 3, 4, 5, 6, 123456789, time.UTC)
	for _, name := range []string{"raw/none", "raw", "empty"} {
		require.NoError(t, os.Chtimes(filepath.Join(dir, name), past, past))
	}
	return dir
}

func write(t testing.TB, dir string) []archive.Entry {
	t.Helper()
	entries, err := archive.Write(t.Context(), dir, dir+archive.Suffix)
	require.NoError(t, err)
	return entries
}

func names(t testing.TB, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// What is unpacked is what was packed: packed again it gives the same bytes.
func TestRoundTrip(t *testing.T) {
	dir := tree(t)
	entries := write(t, dir)
	require.Len(t, entries, 18)
	held, err := archive.List(t.Context(), dir+archive.Suffix, archive.Limits{})
	require.NoError(t, err)
	require.Equal(t, entries, held)
	require.Equal(t, []string{"qwen_2026-11-22", "qwen_2026-11-22.tar.xz"}, names(t, filepath.Dir(dir)),
		"nothing else is left")

	_, err = archive.Write(t.Context(), dir, dir+archive.Suffix)
	require.ErrorIs(t, err, fs.ErrExist)
	_, err = archive.Restore(t.Context(), dir+archive.Suffix, filepath.Dir(dir), archive.Options{})
	require.ErrorIs(t, err, fs.ErrExist)

	elsewhere := t.TempDir()
	restored, err := archive.Restore(t.Context(), dir+archive.Suffix, elsewhere, archive.Options{})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(elsewhere, "qwen_2026-11-22"), restored)
	require.Len(t, names(t, elsewhere), 1)
	require.Equal(t, entries, write(t, restored), "names, modes, sizes, times, links, content")
	first, err := os.ReadFile(dir + archive.Suffix)
	require.NoError(t, err)
	again, err := os.ReadFile(restored + archive.Suffix)
	require.NoError(t, err)
	require.True(t, bytes.Equal(first, again))

	require.NoError(t, archive.Remove(dir, entries))
	require.NoDirExists(t, dir)
}

// Other programs read our archives, and we those of others.
func TestOtherPrograms(t *testing.T) {
	for _, program := range []string{"tar", "xz"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("no " + program)
		}
	}
	dir := tree(t)
	entries := write(t, dir)
	theirs := filepath.Join(t.TempDir(), "theirs.tar.xz")
	for _, args := range [][]string{
		{"xz", "--test", dir + archive.Suffix}, {"tar", "-dJf", dir + archive.Suffix, "-C", filepath.Dir(dir)},
		{"tar", "--format=pax", "--sort=name", "-cJf", theirs, "-C", filepath.Dir(dir), filepath.Base(dir)},
	} {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
	}
	held, err := archive.List(t.Context(), theirs, archive.Limits{})
	require.NoError(t, err)
	require.ElementsMatch(t, entries, held)
}

// One flipped bit anywhere is found, and so is every end that came too early.
//
// covers: PL-D14
func TestDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte(strings.Repeat("some text, ", 60)), 0o644))
	write(t, dir)
	whole, err := os.ReadFile(dir + archive.Suffix)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "damaged.tar.xz")
	try := func(data []byte, what string, i int) {
		require.NoError(t, os.WriteFile(file, data, 0o644))
		_, err := archive.List(t.Context(), file, archive.Limits{})
		require.Error(t, err, "%s %d of %d", what, i, len(whole))
	}
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1 << (i % 8)
		try(damaged, "flipped", i)
		try(whole[:i], "cut at", i)
	}
	try(append(bytes.Clone(whole), 'x'), "longer than", len(whole))
}

// hostile packs headers that no archive of ours holds.
func hostile(t testing.TB, headers ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	x, err := xz.NewWriter(&b)
	require.NoError(t, err)
	w := tar.NewWriter(x)
	for _, h := range headers {
		require.NoError(t, w.WriteHeader(h))
		_, err := w.Write(make([]byte, h.Size))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, x.Close())
	return b.Bytes()
}

var (
	top  = &tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755}
	file = func(name string) *tar.Header {
		return &tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 3, Mode: 0o644}
	}
	link = func(name, to string) *tar.Header {
		return &tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
	}
)

// deep are n folders within each other.
func deep(n int, name string) (list []*tar.Header) {
	for i := range n {
		list = append(list, &tar.Header{Name: "d" + strings.Repeat("/d"+name, i) + "/", Typeflag: tar.TypeDir, Mode: 0o755})
	}
	return list
}

// The names of an archive are in memory, and so are bounded; the deepest folder that is accepted can be removed.
func TestNames(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.tar.xz")
	require.NoError(t, os.WriteFile(name, hostile(t, deep(190, strings.Repeat("x", 15))...), 0o644))
	_, err := archive.Restore(t.Context(), name, t.TempDir(), archive.Options{Limits: archive.Limits{Names: 100_000}})
	require.ErrorIs(t, err, archive.ErrLimit)
	dir, err := archive.Restore(t.Context(), name, t.TempDir(), archive.Options{})
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
}

// Modes of an archive that would keep its reader out are not set, if that was asked for.
func TestPrivate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.tar.xz")
	closed := &tar.Header{Name: "d/closed/", Typeflag: tar.TypeDir}
	require.NoError(t, os.WriteFile(name, hostile(t, top, closed, &tar.Header{Name: "d/closed/f", Typeflag: tar.TypeReg, Size: 3}), 0o644))
	for private, want := range map[bool][2]fs.FileMode{false: {}, true: {0o700, 0o600}} {
		dir, err := archive.Restore(t.Context(), name, t.TempDir(), archive.Options{Private: private})
		require.NoError(t, err)
		if os.Getuid() != 0 && !private {
			require.NoError(t, os.Chmod(filepath.Join(dir, "closed"), 0o700))
			continue
		}
		folder, err := os.Stat(filepath.Join(dir, "closed"))
		require.NoError(t, err)
		f, err := os.Stat(filepath.Join(dir, "closed", "f"))
		require.NoError(t, err)
		require.Equal(t, want, [2]fs.FileMode{folder.Mode().Perm(), f.Mode().Perm()})
	}
}

// evils are archives that would do harm, and what is said of them.
func evils(t testing.TB) map[string][]byte {
	return map[string][]byte{
		"not a name below a directory":  hostile(t, top, file("/etc/evil")),
		"not a name below a directory ": hostile(t, top, file("d/../../evil")),
		"\"../evil\" is not a name":     hostile(t, top, file("../evil")),
		"has no directory for":          hostile(t, top, file("e/evil")),
		"has no directory for ":         hostile(t, top, link("d/l", "x"), file("d/l/evil")),
		"has no directory for  ":        hostile(t, top, file("second")),
		"not the archive's directory":   hostile(t, file("evil")),
		"occurs twice":                  hostile(t, top, link("d/l", "x"), file("d/l")),
		"neither a file":                hostile(t, top, &tar.Header{Name: "d/h", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}),
		"neither a file ":               hostile(t, top, &tar.Header{Name: "d/dev", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}),
		"links lead out":                hostile(t, top, link("d/l", "/etc")),
		"links lead out ":               hostile(t, top, link("d/l", "../x")),
		"links lead out  ":              hostile(t, top, link("d/s", "."), link("d/l", "s/../x")),
		"a path has at most 4000":       hostile(t, top, file("d/"+strings.Repeat("x/", 2000)+"f")),
		"in more than 200 folders":      hostile(t, deep(202, "")...),
		"is empty":                      hostile(t),
		"not an xz file":                []byte("PK\x03\x04, something else"),
	}
}

func TestHostile(t *testing.T) {
	for want, data := range evils(t) {
		t.Run(strings.TrimSpace(want), func(t *testing.T) {
			parent := t.TempDir()
			name := filepath.Join(parent, "evil.tar.xz")
			require.NoError(t, os.WriteFile(name, data, 0o644))
			_, err := archive.Restore(t.Context(), name, parent, archive.Options{})
			require.ErrorContains(t, err, strings.TrimSpace(want))
			require.Equal(t, []string{"evil.tar.xz"}, names(t, parent))
		})
	}
}

// Links that lead out are made, or left out, if that was asked for.
func TestLinksOut(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.tar.xz")
	require.NoError(t, os.WriteFile(name, hostile(t, top, link("d/out", "/etc"), link("d/in", "x")), 0o644))
	for links, want := range map[archive.Links][]string{archive.KeepLinks: {"in", "out"}, archive.SkipLinks: {"in"}} {
		dir, err := archive.Restore(t.Context(), name, t.TempDir(), archive.Options{Links: links})
		require.NoError(t, err)
		require.Equal(t, want, names(t, dir))
	}
	_, err := archive.Restore(t.Context(), name, t.TempDir(), archive.Options{})
	require.ErrorIs(t, err, archive.ErrLeadsOut)
}

func TestLeadsOut(t *testing.T) {
	for to, out := range map[string]bool{
		"x": false, "./x": false, "../x": false, "..": false, "x/y/": false, "../../x": true, "/x": true, "x/../y": true, "../x/..": true, "": true, "../..": true,
	} {
		e := archive.Entry{Name: "d/sub/link", Link: to, Mode: fs.ModeSymlink}
		require.Equal(t, out, e.LeadsOut(), to)
	}
}

// What unpacks to more than is allowed is refused before anything is written.
func TestBombs(t *testing.T) {
	big := file("d/zeros")
	big.Size = 5 << 20
	bomb := hostile(t, top, big)
	require.Less(t, len(bomb), 10_000)

	// a dictionary of 1.5 GiB: byte 16 of the file, with the header's CRC made right
	greedy := hostile(t, top)
	greedy[16] = 37
	size := 12 + 4*(int(greedy[12])+1)
	binary.LittleEndian.PutUint32(greedy[size-4:], crc32.ChecksumIEEE(greedy[12:size-4]))

	// a sparse file says 1 TiB and holds nothing
	var b bytes.Buffer
	x, err := xz.NewWriter(&b)
	require.NoError(t, err)
	w := tar.NewWriter(x)
	require.NoError(t, w.WriteHeader(top))
	require.NoError(t, w.Flush())
	_, err = x.Write(sparse(t))
	require.NoError(t, err)
	require.NoError(t, x.Close())

	for name, c := range map[string]struct {
		data   []byte
		limits archive.Limits
		want   string
	}{
		"bytes":      {bomb, archive.Limits{Bytes: 4 << 20}, "more than 4194304 bytes"},
		"entries":    {hostile(t, top, file("d/a"), file("d/b")), archive.Limits{Entries: 2}, "more than 2 entries"},
		"dictionary": {greedy, archive.Limits{}, "dictionary is larger than 64 MiB"},
		"sparse":     {b.Bytes(), archive.Limits{Bytes: 1 << 50}, "claims more bytes than may be unpacked"},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			file := filepath.Join(parent, "a.tar.xz")
			require.NoError(t, os.WriteFile(file, c.data, 0o644))
			_, err := archive.Restore(t.Context(), file, parent, archive.Options{Limits: c.limits})
			require.ErrorIs(t, err, archive.ErrLimit)
			require.ErrorContains(t, err, c.want)
			require.Len(t, names(t, parent), 1)
		})
	}
}

// sparse is what GNU tar writes of a file that is one hole of 1 TiB, in its own
// old format, and the end of the archive.
func sparse(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	pax := "GNU.sparse.major=1\nGNU.sparse.minor=0\nGNU.sparse.name=d/hole\nGNU.sparse.realsize=1099511627776\n"
	var records strings.Builder
	for line := range strings.Lines(pax) {
		n := len(line) + 3
		if n >= 100 {
			n++
		}
		fmt.Fprintf(&records, "%d %s", n, line)
	}
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: int64(records.Len())}))
	_, err := w.Write([]byte(records.String()))
	require.NoError(t, err)
	require.NoError(t, w.Flush())
	block := b.Bytes()
	block[156] = tar.TypeXHeader
	checksum(block[:512])
	start := b.Len()
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "d/hole", Typeflag: tar.TypeReg, Size: 512}))
	_, err = w.Write(append([]byte("1\n1099511627776\n0\n"), make([]byte, 512-18)...))
	require.NoError(t, err)
	require.Equal(t, start+1024, b.Len())
	require.NoError(t, w.Close())
	return b.Bytes()
}

// checksum makes that of a header of tar right.
func checksum(block []byte) {
	copy(block[148:156], "        ")
	sum := 0
	for _, c := range block {
		sum += int(c)
	}
	copy(block[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

// A command that is killed leaves no archive or a whole one, and the next one
// takes away what it left.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("runs and kills processes: not with -short")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "d")
	require.NoError(t, os.Mkdir(dir, 0o755))
	random := make([]byte, 512<<10)
	for i := range random {
		random[i] = byte(rand.IntN(40))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), random, 0o644))
	left, whole := 0, 0
	for _, size := range []int64{0, 1, 125_000, 250_000, 325_000, 1 << 40} {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), victim+"="+dir)
		require.NoError(t, cmd.Start())
		await.True(t, func() bool {
			list, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".d.tar.xz.partial-*"))
			for _, name := range list {
				if st, err := os.Stat(name); err == nil && st.Size() >= size &&
					strings.Contains(name, fmt.Sprintf(",%d-", cmd.Process.Pid)) {
					return true
				}
			}
			_, err := os.Stat(dir + archive.Suffix)
			return err == nil
		}, "the archive has grown to its size")
		require.NoError(t, cmd.Process.Kill())
		cmd.Wait()
		if _, err := os.Stat(dir + archive.Suffix); err == nil {
			whole++
			_, err := archive.List(t.Context(), dir+archive.Suffix, archive.Limits{})
			require.NoError(t, err)
			require.NoError(t, os.Remove(dir+archive.Suffix))
			continue
		}
		left++
		require.LessOrEqual(t, len(names(t, filepath.Dir(dir))), 2, "each takes away what the one before left")
	}
	require.Positive(t, left)
	require.Positive(t, whole)
	write(t, dir)
	require.Equal(t, []string{"d", "d.tar.xz"}, names(t, filepath.Dir(dir)))

	elsewhere := t.TempDir()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), victim+"="+dir+archive.Suffix, into+"="+elsewhere)
	require.NoError(t, cmd.Start())
	await.True(t, func() bool { return len(names(t, elsewhere)) > 0 }, "a first file is restored")
	require.NoError(t, cmd.Process.Kill())
	cmd.Wait()
	if whole, err := filepath.Glob(filepath.Join(elsewhere, "d")); len(whole) > 0 {
		require.NoError(t, err)
		require.NoError(t, os.RemoveAll(whole[0]))
	}
	_, err = archive.Restore(t.Context(), dir+archive.Suffix, elsewhere, archive.Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"d"}, names(t, elsewhere))
}

// Of several at once one does it, and the others say so.
func TestAtOnce(t *testing.T) {
	dir := tree(t)
	elsewhere := t.TempDir()
	for what, act := range map[string]func() error{
		"write": func() error {
			_, err := archive.Write(t.Context(), dir, dir+archive.Suffix)
			return err
		},
		"restore": func() error {
			_, err := archive.Restore(t.Context(), filepath.Join(elsewhere, "a.tar.xz"), elsewhere, archive.Options{})
			return err
		},
	} {
		if what == "restore" {
			packed := tree(t)
			write(t, packed)
			require.NoError(t, os.Rename(packed+archive.Suffix, filepath.Join(elsewhere, "a.tar.xz")))
		}
		errs := make([]error, 4)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = act() })
		}
		wg.Wait()
		done := 0
		for _, err := range errs {
			if err == nil {
				done++
				continue
			}
			require.ErrorIs(t, err, fs.ErrExist, what)
		}
		require.Equal(t, 1, done, what)
	}
	require.Len(t, names(t, filepath.Dir(dir)), 2)
	require.Len(t, names(t, elsewhere), 2)
	_, err := archive.List(t.Context(), dir+archive.Suffix, archive.Limits{})
	require.NoError(t, err)
}

// A full disk is an error, and nothing is left of the attempt.
func TestDiskFull(t *testing.T) {
	small := t.TempDir()
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no tmpfs may be mounted here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(small, 0)) })
	dir := tree(t)
	_, err := archive.Write(t.Context(), dir, filepath.Join(small, "a.tar.xz"))
	require.NoError(t, err, "it fits")
	require.NoError(t, os.WriteFile(filepath.Join(small, "ballast"), make([]byte, 8000), 0o644))
	_, err = archive.Write(t.Context(), dir, filepath.Join(small, "b.tar.xz"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	_, err = archive.Restore(t.Context(), filepath.Join(small, "a.tar.xz"), small, archive.Options{})
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, []string{"a.tar.xz", "ballast"}, names(t, small))
}

// What came after the archive is not lost.
func TestRemoveKeepsWhatChanged(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"a new file": func(dir string) error { return os.WriteFile(filepath.Join(dir, "new"), nil, 0o644) },
		"a longer":   func(dir string) error { return os.WriteFile(filepath.Join(dir, "plan.json"), []byte("{ }\n\n"), 0o755) },
		"another end": func(dir string) error {
			return errAll(os.Remove(filepath.Join(dir, "dangling")), os.Symlink("x", filepath.Join(dir, "dangling")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t)
			entries := write(t, dir)
			require.NoError(t, change(dir))
			require.ErrorContains(t, archive.Remove(dir, entries), "is kept")
			require.FileExists(t, filepath.Join(dir, "plan.json"))
			require.Len(t, names(t, filepath.Dir(dir)), 2)
		})
	}
}

func errAll(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestRefused(t *testing.T) {
	dir := tree(t)
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "raw", "pipe"), 0o644))
	_, err := archive.Write(t.Context(), dir, dir+archive.Suffix)
	require.ErrorContains(t, err, "/pipe: a named pipe cannot be archived")
	require.ErrorContains(t, err, "raw/pipe: a named pipe cannot be archived")
	_, err = archive.Write(t.Context(), filepath.Join(dir, "plan.json"), dir+archive.Suffix)
	require.ErrorContains(t, err, "is not a directory")

	dir = tree(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = archive.Write(ctx, dir, dir+archive.Suffix)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, names(t, filepath.Dir(dir)), 1)
}

// Whatever the bytes are, nothing appears outside of the one directory.
func FuzzRestore(f *testing.F) {
	f.Add(hostile(f, top, file("d/a"), link("d/l", "a")))
	for _, data := range evils(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		box := t.TempDir()
		parent := filepath.Join(box, "parent")
		require.NoError(t, os.Mkdir(parent, 0o755))
		name := filepath.Join(parent, "a.tar.xz")
		require.NoError(t, os.WriteFile(name, data, 0o644))
		o := archive.Options{Limits: archive.Limits{Bytes: 1 << 20, Entries: 100}, Links: archive.KeepLinks}
		dir, err := archive.Restore(t.Context(), name, parent, o)
		require.Equal(t, []string{"parent"}, names(t, box))
		if err != nil {
			require.Equal(t, []string{"a.tar.xz"}, names(t, parent))
			return
		}
		require.Len(t, names(t, parent), 2)
		require.DirExists(t, dir)
		_, err = archive.List(t.Context(), name, o.Limits)
		require.NoError(t, err)
	})
}

// FuzzTar is the same behind the checksums of xz: the bytes are those of tar.
func FuzzTar(f *testing.F) {
	for _, data := range evils(f) {
		r, err := xz.NewReader(bytes.NewReader(data))
		if err != nil {
			continue
		}
		var b bytes.Buffer
		_, err = b.ReadFrom(r)
		require.NoError(f, err)
		f.Add(b.Bytes())
	}
	f.Add(sparse(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		var b bytes.Buffer
		x, err := xz.WriterConfig{DictCap: 1 << 16}.NewWriter(&b)
		require.NoError(t, err)
		_, err = x.Write(data)
		require.NoError(t, err)
		require.NoError(t, x.Close())
		box := t.TempDir()
		parent := filepath.Join(box, "parent")
		require.NoError(t, os.Mkdir(parent, 0o755))
		name := filepath.Join(parent, "a.tar.xz")
		require.NoError(t, os.WriteFile(name, b.Bytes(), 0o644))
		_, err = archive.Restore(t.Context(), name, parent,
			archive.Options{Limits: archive.Limits{Bytes: 1 << 20, Entries: 100}, Links: archive.KeepLinks})
		require.Equal(t, []string{"parent"}, names(t, box))
		if err != nil {
			require.Equal(t, []string{"a.tar.xz"}, names(t, parent))
		}
	})
}

// lines is a log like that of a server.
func lines(size int) []byte {
	var b bytes.Buffer
	r := rand.New(rand.NewPCG(1, 2))
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "INFO 11-22 03:%02d:%02d [loggers.py:127] Engine 000: Avg prompt throughput: %.1f tokens/s, Running: %d reqs, GPU KV cache usage: %.1f%%\n",
			i/60%60, i%60, r.Float64()*9000, r.IntN(256), r.Float64()*100)
	}
	return b.Bytes()[:size]
}

func BenchmarkArchive(b *testing.B) {
	const size = 8 << 20
	dir := filepath.Join(b.TempDir(), "d")
	require.NoError(b, os.Mkdir(dir, 0o755))
	require.NoError(b, os.WriteFile(filepath.Join(dir, "serve-0.log"), lines(size), 0o644))
	b.Run("write", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			os.Remove(dir + archive.Suffix)
			write(b, dir)
		}
		st, err := os.Stat(dir + archive.Suffix)
		require.NoError(b, err)
		b.ReportMetric(float64(size)/float64(st.Size()), "ratio")
	})
	b.Run("list", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			_, err := archive.List(b.Context(), dir+archive.Suffix, archive.Limits{})
			require.NoError(b, err)
		}
	})
}
