package index

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/internal/killtest"
	"github.com/profllm/profllm/pkg/run"
)

const program = "test 1"

// aRun writes a run of two files and a folder.
func aRun(t testing.TB, root, name string) string {
	t.Helper()
	dir := filepath.Join(root, name)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "raw"), 0o755))
	for _, file := range []string{"plan.json", "raw/bench.json", run.ResultFile} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte("before "+file), 0o644))
	}
	return dir
}

// later is an index whose clock is so much ahead of the file system's.
func later(root string, by time.Duration) *Index {
	x := Open(root, program)
	x.clock = func() int64 { return time.Now().Add(by).UnixNano() }
	return x
}

// collect does what a collection does with a run, and reports whether it was known.
func collect(t testing.TB, x *Index, dir string, outside Entry) bool {
	t.Helper()
	outside.Asked = "a"
	if e := x.Unchanged(dir, outside.Asked); e != nil {
		require.JSONEq(t, `{"n": 1}`, string(e.Shown))
		return true
	}
	l := x.Look(dir)
	content, err := os.ReadFile(filepath.Join(dir, run.ResultFile))
	require.NoError(t, err)
	outside.Shown = []byte(`{"n":1}`)
	x.Keep(dir, l, outside, content)
	return false
}

// remembered is a run that an index on disk knows.
func remembered(t testing.TB, outside Entry) (root, dir string) {
	t.Helper()
	root = t.TempDir()
	dir = aRun(t, root, "a")
	x := later(root, time.Hour)
	require.False(t, collect(t, x, dir, outside))
	require.NoError(t, x.Save())
	require.True(t, collect(t, later(root, 2*time.Hour), dir, outside))
	return root, dir
}

// Whatever changes in a run is seen, also by somebody who hides it.
func TestEveryChangeIsSeen(t *testing.T) {
	old := time.Now().Add(-24 * time.Hour)
	for name, change := range map[string]func(t *testing.T, dir string){
		"touched": func(t *testing.T, dir string) {
			require.NoError(t, os.Chtimes(filepath.Join(dir, "plan.json"), old, old))
		},
		"appended": func(t *testing.T, dir string) { appendTo(t, filepath.Join(dir, "raw/bench.json")) },
		"same size and time, in place": func(t *testing.T, dir string) {
			hide(t, filepath.Join(dir, "raw/bench.json"),
				func(path string, data []byte) error { return os.WriteFile(path, data, 0o644) })
		},
		"same size and time, replaced": func(t *testing.T, dir string) {
			hide(t, filepath.Join(dir, "raw/bench.json"), func(path string, data []byte) error {
				if err := os.WriteFile(path+"~", data, 0o644); err != nil {
					return err
				}
				return os.Rename(path+"~", path)
			})
		},
		"deleted":                func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "plan.json"))) },
		"deleted in a folder":    func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "raw/bench.json"))) },
		"a new file":             func(t *testing.T, dir string) { appendTo(t, filepath.Join(dir, "import.json")) },
		"a new file in a folder": func(t *testing.T, dir string) { appendTo(t, filepath.Join(dir, "raw/more.json")) },
		"a new folder":           func(t *testing.T, dir string) { require.NoError(t, os.Mkdir(filepath.Join(dir, "left"), 0o755)) },
		"renamed": func(t *testing.T, dir string) {
			require.NoError(t, os.Rename(filepath.Join(dir, "plan.json"), filepath.Join(dir, "plan")))
		},
		"another folder": func(t *testing.T, dir string) {
			require.NoError(t, os.Rename(filepath.Join(dir, "raw"), filepath.Join(t.TempDir(), "raw")))
			require.NoError(t, os.Mkdir(filepath.Join(dir, "raw"), 0o755))
			appendTo(t, filepath.Join(dir, "raw/bench.json"))
		},
		"a hard link in its place": func(t *testing.T, dir string) {
			other := filepath.Join(filepath.Dir(dir), "other")
			appendTo(t, other)
			require.NoError(t, os.Remove(filepath.Join(dir, "plan.json")))
			require.NoError(t, os.Link(other, filepath.Join(dir, "plan.json")))
		},
		"a pipe in its place": func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "plan.json")))
			require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "plan.json"), 0o644))
		},
		"permissions": func(t *testing.T, dir string) { require.NoError(t, os.Chmod(filepath.Join(dir, "plan.json"), 0o600)) },
		"the record":  func(t *testing.T, dir string) { appendTo(t, filepath.Join(dir, run.ResultFile)) },
		"the record, hidden": func(t *testing.T, dir string) {
			hide(t, filepath.Join(dir, run.ResultFile),
				func(path string, data []byte) error { return os.WriteFile(path, data, 0o644) })
		},
		"no record":       func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, run.ResultFile))) },
		"an empty record": func(t *testing.T, dir string) { require.NoError(t, os.Truncate(filepath.Join(dir, run.ResultFile), 0)) },
		"a link elsewhere": func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "link")))
			require.NoError(t, os.Symlink("../two", filepath.Join(dir, "link")))
		},
		"behind a link": func(t *testing.T, dir string) { appendTo(t, filepath.Join(filepath.Dir(dir), "one")) },
		"outside":       func(t *testing.T, dir string) { appendTo(t, filepath.Join(filepath.Dir(dir), "beside/bench.json")) },
		"new outside":   func(t *testing.T, dir string) { appendTo(t, filepath.Join(filepath.Dir(dir), "secret")) },
		"nothing":       func(*testing.T, string) {},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir := aRun(t, root, "a")
			aRun(t, root, "beside")
			for _, file := range []string{"one", "two"} {
				appendTo(t, filepath.Join(root, file))
			}
			require.NoError(t, os.Symlink("../one", filepath.Join(dir, "link")))
			outside := Entry{Folders: []string{"../beside"}, Files: []string{filepath.Join(root, "secret")}}
			x := later(root, time.Hour)
			require.False(t, collect(t, x, dir, outside))
			require.NoError(t, x.Save())
			require.True(t, collect(t, later(root, 2*time.Hour), dir, outside), "nothing has changed yet")
			change(t, dir)
			require.Equal(t, name == "nothing", later(root, 2*time.Hour).Unchanged(dir, "a") != nil)
		})
	}
}

func appendTo(t *testing.T, file string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = f.WriteString("x")
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// hide changes a file and gives it the size and the time that it had.
func hide(t *testing.T, file string, write func(path string, data []byte) error) {
	t.Helper()
	st, err := os.Stat(file)
	require.NoError(t, err)
	require.NoError(t, write(file, make([]byte, st.Size())))
	require.NoError(t, os.Chtimes(file, st.ModTime(), st.ModTime()))
}

// What changed shortly before it was looked at may change again and look the same: it
// is not remembered, whoever's clock is ahead.
func TestRecentChangesAreNotRemembered(t *testing.T) {
	for age, kept := range map[time.Duration]bool{
		-time.Hour: false, 0: false, time.Second: false, 2*time.Second - 1: false, 2 * time.Second: true,
		time.Hour: true,
	} {
		root := t.TempDir()
		dir := aRun(t, root, "a")
		x := later(root, time.Hour)
		changed := x.Look(dir).newest
		x.clock = func() int64 { return changed + int64(age) }
		require.False(t, collect(t, x, dir, Entry{}))
		require.NoError(t, x.Save())
		require.Equal(t, kept, collect(t, later(root, 2*time.Hour), dir, Entry{}), "%s after the change", age)
	}
}

// A record that was written shortly before it was looked at is compared by content, and
// is relied on once it is old enough.
func TestARecentRecordIsRead(t *testing.T) {
	root := t.TempDir()
	dir := aRun(t, root, "a")
	x := later(root, time.Hour)
	l := x.Look(dir)
	record := filepath.Join(dir, run.ResultFile)
	soon := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(record, soon, soon)) // as written just now
	x.Keep(dir, l, Entry{Asked: "a", Shown: []byte("{}")}, []byte("before "+run.ResultFile))
	require.True(t, x.entries["a"].racy())
	require.NotNil(t, x.Unchanged(dir, "a"))

	x.entries["a"].Digest = digest([]byte("something else of the same look"))
	require.Nil(t, x.Unchanged(dir, "a"))

	x.entries["a"].Digest = digest([]byte("before " + run.ResultFile))
	x.clock = func() int64 { return time.Now().Add(2 * time.Hour).UnixNano() }
	require.NotNil(t, x.Unchanged(dir, "a"))
	require.False(t, x.entries["a"].racy(), "read once")
}

// A run that changes while it is read is not remembered as it was before.
func TestAChangeBetweenLookAndWriting(t *testing.T) {
	root := t.TempDir()
	dir := aRun(t, root, "a")
	x := later(root, time.Hour)
	l := x.Look(dir)
	require.NoError(t, os.Remove(filepath.Join(dir, "plan.json")))
	x.Keep(dir, l, Entry{Asked: "a", Shown: []byte("{}")}, []byte("before "+run.ResultFile))
	require.Nil(t, x.Unchanged(dir, "a"))
}

// Nothing is believed of another program, another place, another answer of Slurm, or of
// a file that is none of ours.
func TestOtherIndexes(t *testing.T) {
	root, dir := remembered(t, Entry{})
	require.Nil(t, later(root, time.Hour).Unchanged(dir, "b"))
	require.Nil(t, Open(root, "test 2").Unchanged(dir, "a"))

	data, err := os.ReadFile(filepath.Join(root, File))
	require.NoError(t, err)
	for _, cut := range []int{0, 1, 20, len(data) / 2, len(data) - 2} {
		require.NoError(t, os.WriteFile(filepath.Join(root, File), data[:cut], 0o644))
		require.Nil(t, later(root, time.Hour).Unchanged(dir, "a"), cut)
	}
	moved := filepath.Join(t.TempDir(), "moved")
	require.NoError(t, os.WriteFile(filepath.Join(root, File), data, 0o644))
	require.NoError(t, os.Rename(root, moved))
	require.Nil(t, later(moved, time.Hour).Unchanged(filepath.Join(moved, "a"), "a"))
}

// A folder behind a link, another file system, a directory in which nothing can be
// written, too many files: such runs are read each time.
func TestRunsThatAreNotRemembered(t *testing.T) {
	root := t.TempDir()
	linked := aRun(t, root, "linked")
	require.NoError(t, os.Symlink(root, filepath.Join(linked, "logs")))
	other := aRun(t, root, "other")
	many := aRun(t, root, "many")
	for i := range most {
		require.NoError(t, os.Symlink("nowhere", filepath.Join(many, fmt.Sprint(i))))
	}
	for _, dir := range []string{linked, many} {
		require.Nil(t, later(root, time.Hour).Look(dir), dir)
	}
	x := later(root, time.Hour)
	x.device++
	require.False(t, collect(t, x, other, Entry{}))
	require.False(t, collect(t, x, other, Entry{}))
	x = later(root, time.Hour)
	x.clock = func() int64 { return 0 }
	require.Nil(t, x.Look(other))
	require.NoError(t, x.Save())
	require.NoFileExists(t, filepath.Join(root, File))
}

// A file of a run, or beside one, that lies on another file system has times of another clock.
func TestAFileOnAnotherFileSystem(t *testing.T) {
	root := t.TempDir()
	var here, there syscall.Stat_t
	require.NoError(t, syscall.Stat(root, &here))
	var file string
	for _, dir := range []string{"/dev/shm", "."} { // temporary files may lie in one of them
		f, err := os.CreateTemp(dir, "profllm-index-")
		require.NoError(t, err)
		t.Cleanup(func() { os.Remove(f.Name()) })
		require.NoError(t, f.Close())
		require.NoError(t, syscall.Stat(f.Name(), &there))
		if there.Dev != here.Dev {
			file, err = filepath.Abs(f.Name())
			require.NoError(t, err)
			break
		}
	}
	require.NotEmpty(t, file, "a second file system")
	linked, beside := aRun(t, root, "linked"), aRun(t, root, "beside")
	require.NoError(t, os.Symlink(file, filepath.Join(linked, "raw/x")))
	x := later(root, time.Hour)
	for range 2 {
		require.False(t, collect(t, x, linked, Entry{}))
		require.False(t, collect(t, x, beside, Entry{Files: []string{file}}))
	}
}

// Runs that changed and runs that did not are asked for at the same time; run with -race.
func TestManyAtOnce(t *testing.T) {
	root := t.TempDir()
	dirs := make([]string, 64)
	x := later(root, time.Hour)
	for i := range dirs {
		dirs[i] = aRun(t, root, fmt.Sprint(i))
		require.False(t, collect(t, x, dirs[i], Entry{}))
	}
	require.NoError(t, x.Save())
	for i := 0; i < len(dirs); i += 2 {
		require.NoError(t, os.WriteFile(filepath.Join(dirs[i], fmt.Sprint("new-", i)), nil, 0o644))
	}
	x = later(root, 2*time.Hour)
	for _, known := range []bool{false, true} {
		var wrong atomic.Int64
		run.AtOnce(len(dirs), 16, func(i int) {
			e := x.Unchanged(dirs[i], "a")
			if (e != nil) != (known || i%2 == 1) {
				wrong.Add(1)
			}
			if e == nil {
				x.Keep(dirs[i], x.Look(dirs[i]), Entry{Asked: "a", Shown: []byte("1")}, []byte("x"))
			}
		})
		require.Zero(t, wrong.Load())
	}
}

// Runs that are gone leave the index, runs that nobody asked for stay.
func TestSave(t *testing.T) {
	root := t.TempDir()
	x := later(root, time.Hour)
	for _, name := range []string{"a", "b", "c"} {
		require.False(t, collect(t, x, aRun(t, root, name), Entry{}))
	}
	require.NoError(t, x.Save())
	require.NoError(t, os.RemoveAll(filepath.Join(root, "b")))
	x = later(root, 2*time.Hour)
	appendTo(t, filepath.Join(root, "a/plan.json"))
	require.False(t, collect(t, x, filepath.Join(root, "a"), Entry{}))
	require.NoError(t, x.Save())
	x = later(root, 2*time.Hour)
	require.Len(t, x.entries, 2)
	require.True(t, collect(t, x, filepath.Join(root, "c"), Entry{}))
}

// childVar makes a process of this test collect runs below the named directory.
const childVar = "INDEX_TEST_ROOT"

// TestChild is the program that TestKilled kills.
func TestChild(t *testing.T) {
	root := os.Getenv(childVar)
	if root == "" {
		t.Skip("started by TestKilled")
	}
	x := later(root, time.Hour)
	for _, name := range []string{"a", "b"} {
		dir := filepath.Join(root, name)
		if x.Unchanged(dir, "a") != nil {
			continue
		}
		l := x.Look(dir)
		plan, err := os.ReadFile(filepath.Join(dir, "plan.json"))
		require.NoError(t, err)
		require.NoError(t, durable.WriteUnsynced(filepath.Join(dir, run.ResultFile), plan))
		x.Keep(dir, l, Entry{Asked: "a", Shown: []byte("{}")}, plan)
	}
	require.NoError(t, x.Save())
}

// A collection that is killed at any change leaves an index that is right: what it says
// is unchanged has the record that a new one would write.
func TestKilled(t *testing.T) {
	child := func(root string) *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
		cmd.Env = append(os.Environ(), childVar+"="+root)
		return cmd
	}
	begin := func() string {
		root := t.TempDir()
		a, b := aRun(t, root, "a"), aRun(t, root, "b")
		require.NoError(t, child(root).Run())
		appendTo(t, filepath.Join(a, "plan.json"))
		appendTo(t, filepath.Join(b, "plan.json"))
		return root
	}
	changes, code, err := killtest.Run(child(begin()), 0)
	require.NoError(t, err)
	require.Zero(t, code)
	require.GreaterOrEqual(t, len(changes), 9, "two records and an index, each made and renamed: %v", changes)
	for n := range changes {
		root := begin()
		_, _, err := killtest.Run(child(root), n+1)
		require.NoError(t, err)
		x := later(root, 2*time.Hour)
		for _, name := range []string{"a", "b"} {
			dir := filepath.Join(root, name)
			if x.Unchanged(dir, "a") == nil {
				continue
			}
			plan, err := os.ReadFile(filepath.Join(dir, "plan.json"))
			require.NoError(t, err)
			record, err := os.ReadFile(filepath.Join(dir, run.ResultFile))
			require.NoError(t, err)
			require.Equal(t, plan, record, "killed before %v", changes[n])
		}
		for range 2 { // the first sweeps the killed one's temporary files, which changes the run
			require.NoError(t, child(root).Run())
		}
		require.NotNil(t, later(root, 2*time.Hour).Unchanged(filepath.Join(root, "b"), "a"), "killed before %v",
			changes[n])
	}
}

func FuzzRead(f *testing.F) {
	root, _ := remembered(f, Entry{})
	data, err := os.ReadFile(filepath.Join(root, File))
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte(fmt.Sprintf(`{"schema":%q,"program":%q,"dir":%q,"shapes":[null]}`+"\n"+
		`{"run":"a","sum":"x","shape":-1}`, Schema, program, root)))
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(root, File), data, 0o644))
		x := Open(root, program)
		if e := x.Unchanged(filepath.Join(root, "a"), "a"); e != nil {
			require.Equal(t, "a", e.Run)
		}
		require.NoError(t, x.Save())
	})
}
