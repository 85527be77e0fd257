package stage_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/stage"
)

// The test binary plays the programs that a Stager runs, under their names, and a
// Stager in a process of its own that can be killed.
func TestMain(m *testing.M) {
	switch name := filepath.Base(os.Args[0]); name {
	case "enroot", "apptainer", "srun", "hf", "docker":
		os.Exit(fake(name, os.Args[1:]))
	}
	if os.Getenv("STAGE_CHILD") != "" {
		os.Exit(child())
	}
	os.Exit(m.Run())
}

// fake is a program whose behaviour is a file beside it, and which notes how it was
// called.
func fake(name string, args []string) int {
	dir := os.Getenv("FAKES")
	if name == "enroot" && args[0] == "digest" {
		said, err := os.ReadFile(filepath.Join(dir, "digest"))
		if err != nil {
			fmt.Fprintln(os.Stderr, "[ERROR] Unknown command: digest")
			return 1
		}
		fmt.Printf("[INFO] Querying registry for %s\n%s\n", args[1], said)
		return 0
	}
	line, _ := json.Marshal(append([]string{name}, args...))
	log, err := os.OpenFile(filepath.Join(dir, "calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(log, "%s\n", line)
	log.Close()
	mode, _ := os.ReadFile(filepath.Join(dir, "mode"))
	switch name {
	case "srun":
		for i, a := range args {
			if strings.HasPrefix(a, "--job-name=") {
				return fake(args[i+1], args[i+2:])
			}
		}
		return 99
	case "hf":
		if string(mode) == "empty" {
			return 0
		}
		root := filepath.Join(args[3], "models--"+strings.ReplaceAll(args[1], "/", "--"), "snapshots", "abc")
		if os.MkdirAll(root, 0o755) != nil ||
			os.WriteFile(filepath.Join(root, "config.json"), []byte(os.Getenv("HF_HOME")), 0o644) != nil {
			return 1
		}
		return 0
	}
	file := args[2] // enroot import -o FILE URL
	if name == "apptainer" {
		file = args[1]
	}
	data := image(5000)
	switch string(mode) {
	case "fail":
		fmt.Fprintln(os.Stderr, "401 Unauthorized")
		return 1
	case "quota":
		fmt.Fprintln(os.Stderr, "Write error")
	case "truncated":
		data = data[:2000]
	case "page":
		data = []byte(strings.Repeat("<html>", 1000))
	case "nothing":
		return 0
	case "hang":
		_ = os.WriteFile(file, data[:3000], 0o644)
		_ = os.WriteFile(filepath.Join(dir, "hangs"), nil, 0o644)
		time.Sleep(time.Hour)
	case "stubborn", "parent of a stubborn one":
		if string(mode) == "stubborn" {
			signal.Ignore(syscall.SIGTERM)
		}
		c := exec.Command("sh", "-c",
			`trap "" TERM; echo $$ >"$FAKES/pid.new"; mv "$FAKES/pid.new" "$FAKES/pid"; exec sleep 3600`)
		if c.Run() != nil {
			return 1
		}
	case "pushed":
		_ = os.WriteFile(filepath.Join(dir, "digest"), []byte("sha256:"+strings.Repeat("cd", 32)), 0o644)
	case "crowded":
		for len(begun(dir)) < crowd {
			time.Sleep(time.Millisecond)
		}
	}
	if os.WriteFile(file, data, 0o644) != nil {
		return 1
	}
	return 0
}

// image has a squashfs header that says how long it is.
func image(size int) []byte {
	b := make([]byte, size)
	copy(b, "hsqs")
	binary.LittleEndian.PutUint64(b[40:], uint64(size))
	return b
}

type world struct {
	t          *testing.T
	dir, fakes string
	stager     *stage.Stager
	log        []string
}

func lookPath(dirs ...string) func(string) (string, error) {
	return func(name string) (string, error) {
		for _, d := range dirs {
			if _, err := os.Stat(filepath.Join(d, name)); err == nil {
				return filepath.Join(d, name), nil
			}
		}
		return "", fs.ErrNotExist
	}
}

// newWorld is an install path and fake programs.
func newWorld(t *testing.T, programs ...string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), fakes: t.TempDir()}
	self, err := os.Executable()
	require.NoError(t, err)
	for _, p := range programs {
		require.NoError(t, os.Symlink(self, filepath.Join(w.fakes, p)))
	}
	var mu sync.Mutex
	w.stager = newStager(w.dir, w.fakes, func(f string, a ...any) {
		mu.Lock()
		defer mu.Unlock()
		w.log = append(w.log, fmt.Sprintf(f, a...))
	})
	return w
}

func newStager(dir, fakes string, log func(string, ...any)) *stage.Stager {
	return &stage.Stager{
		Site: stage.Site{System: &config.System{InstallPath: filepath.Join(dir, "install"),
			HFHomePath: filepath.Join(dir, "hf"), DefaultPartition: "cpu", Account: "acc",
			ExtraSrunArgs: config.Words{"--mem=0"}}, WorkDir: dir},
		Environ: append(os.Environ(), "FAKES="+fakes), LookPath: lookPath(fakes, "/usr/bin", "/bin"), Now: time.Now,
		Log: log, Poll: 5 * time.Millisecond, Host: "here",
	}
}

func (w *world) mode(m string) {
	require.NoError(w.t, os.WriteFile(filepath.Join(w.fakes, "mode"), []byte(m), 0o644))
}

func (w *world) calls() []string {
	data, err := os.ReadFile(filepath.Join(w.fakes, "calls"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

func (w *world) item(launcher string) stage.Item {
	item, ok, err := w.stager.ImageItem("nvcr.io#nvidia/vllm:26.01", launcher)
	require.NoError(w.t, err)
	require.True(w.t, ok)
	return item
}

// files lists what is in the install path.
func (w *world) files() []string {
	var names []string
	entries, err := os.ReadDir(w.stager.Install())
	require.NoError(w.t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

const staged = "nvcr.io_nvidia__vllm__26.01.sqsh"

// covers: C.4, PL-G3, IMG-9
func TestImage(t *testing.T) {
	w := newWorld(t, "enroot")
	o, err := w.stager.Stage(t.Context(), w.item("pyxis"))
	require.NoError(t, err)
	require.Equal(t, stage.Staged, o.State)
	require.Equal(t, filepath.Join(w.dir, "install", staged), o.Path)
	require.Equal(t, []string{staged, staged + ".json"}, w.files(), "the image, its record, and nothing else")
	require.Len(t, w.calls(), 1)
	require.Regexp(t, `^\["enroot","import","-o",".*/\.`+staged+
		`\.partial-here-\d+\.sqsh","docker://nvcr.io#nvidia/vllm:26.01"\]$`, w.calls()[0])
	r, err := stage.Verify(o.Item)
	require.NoError(t, err)
	require.Equal(t, "nvcr.io#nvidia/vllm:26.01", r.Reference)
	require.Equal(t, int64(5000), r.Size)
	require.Equal(t, o.Digest, r.Digest)

	again, err := w.stager.Stage(t.Context(), w.item("enroot"))
	require.NoError(t, err)
	require.Equal(t, stage.Present, again.State)
	require.Equal(t, o.Digest, again.Digest)
	require.Len(t, w.calls(), 1, "imported once")
}

// A forced import replaces the file of that image, whole or not, and nothing else: other images
// stay, and so does a file that belongs to another image.
//
// covers: IMG-8
func TestForce(t *testing.T) {
	w := newWorld(t, "enroot")
	item := w.item("pyxis")
	_, err := w.stager.Stage(t.Context(), item)
	require.NoError(t, err)
	other := filepath.Join(w.stager.Install(), "other.sqsh")
	require.NoError(t, os.WriteFile(other, image(4000), 0o644))
	w.stager.Force = true
	outcomes, err := w.stager.StageAll(t.Context(), []stage.Item{item}, true)
	require.NoError(t, err)
	require.Equal(t, stage.WouldStage, outcomes[0].State)
	for n, spoil := range []int64{5000, 4000} { // bytes; the record says 5000
		require.NoError(t, os.Truncate(item.Path, spoil))
		o, err := w.stager.Stage(t.Context(), item)
		require.NoError(t, err)
		require.Equal(t, stage.Staged, o.State)
		require.Len(t, w.calls(), 2+n)
		_, err = stage.Verify(item)
		require.NoError(t, err)
	}
	require.Equal(t, []string{staged, staged + ".json", "other.sqsh"}, w.files())

	w.mode("fail")
	_, err = w.stager.Stage(t.Context(), item)
	require.ErrorContains(t, err, "401 Unauthorized")
	_, err = stage.Verify(item)
	require.NoError(t, err, "the old image stays until the new one is whole")

	foreign := item
	foreign.Name = "nvcr.io/nvidia/vllm:25.12"
	_, err = w.stager.Stage(t.Context(), foreign)
	require.ErrorIs(t, err, stage.ErrConflict)
}

// The registry's digest says which image a tag was when it was imported; one that moved
// meanwhile proves nothing.
func TestManifest(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for name, tt := range map[string]struct{ said, mode, want string }{
		"known":             {digest, "", digest},
		"an older enroot":   {"", "", ""},
		"none in the words": {"nothing", "", ""},
		"a tag that moved":  {digest, "pushed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "enroot")
			w.mode(tt.mode)
			if tt.said != "" {
				require.NoError(t, os.WriteFile(filepath.Join(w.fakes, "digest"), []byte(tt.said), 0o644))
			}
			o, err := w.stager.Stage(t.Context(), w.item("pyxis"))
			require.NoError(t, err)
			r, err := stage.Read(o.Item)
			require.NoError(t, err)
			require.Equal(t, tt.want, r.Manifest)
			require.Equal(t, tt.want != "", r.Source() == "nvcr.io#nvidia/vllm:26.01@"+digest, r.Source())
		})
	}
}

// covers: PL-G3, PL-G5
func TestImportFails(t *testing.T) {
	for mode, want := range map[string]string{
		"fail":      "exit status 1\n\t| 401 Unauthorized",
		"quota":     "exit status 0, but \"Write error\"",
		"truncated": "is truncated: 2000 of 5000 bytes",
		"page":      "is not a squashfs, SIF or docker archive",
		"nothing":   "no such file",
	} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t, "enroot")
			w.mode(mode)
			_, err := w.stager.Stage(t.Context(), w.item("pyxis"))
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "stage image nvcr.io#nvidia/vllm:26.01: ")
			require.Empty(t, w.files(), "nothing is left that could be taken for an image")
			w.mode("")
			o, err := w.stager.Stage(t.Context(), w.item("pyxis"))
			require.NoError(t, err, "and the next attempt works")
			require.Equal(t, stage.Staged, o.State)
		})
	}
}

func TestNoSpace(t *testing.T) {
	w := newWorld(t, "enroot")
	w.stager.ImageSize, w.stager.Prune = 1<<60, "profllm image prune --system s.toml"
	_, err := w.stager.Stage(t.Context(), w.item("pyxis"))
	require.ErrorContains(t, err, "needs 2882303761.5 GB\n\thint: profllm image prune --system s.toml --older-than 720h, or ")
	require.Empty(t, w.calls())
}

func TestTimeout(t *testing.T) {
	w := newWorld(t, "enroot")
	w.mode("hang")
	w.stager.Timeout = 200 * time.Millisecond
	_, err := w.stager.Stage(t.Context(), w.item("pyxis"))
	require.ErrorContains(t, err, "not done after 200ms")
	require.Empty(t, w.files())
}

// What a program has started, and does not obey TERM, is gone when Stage returns, and so is the
// lock: the next command need not wait for anybody.
func TestInterruptedGroup(t *testing.T) {
	for _, mode := range []string{"stubborn", "parent of a stubborn one"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "enroot")
			w.mode(mode)
			ctx, interrupt := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			item := w.item("pyxis")
			go func() {
				_, err := w.stager.Stage(ctx, item)
				ended <- err
			}()
			file := filepath.Join(w.fakes, "pid")
			await.File(t, file)
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			require.NoError(t, err)
			require.False(t, gone(pid))
			t.Cleanup(func() {
				if t.Failed() {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			})
			interrupt()
			require.ErrorIs(t, <-ended, context.Canceled)
			require.Empty(t, w.files(), "neither a lock nor a part")
			await.True(t, func() bool { return gone(pid) }, "process %d is gone", pid)
			w.mode("")
			o, err := w.stager.Stage(t.Context(), item)
			require.NoError(t, err)
			require.Equal(t, stage.Staged, o.State)
		})
	}
}

// gone reports whether a process has ended; its parent may not have asked for it yet.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestWhere(t *testing.T) {
	w := newWorld(t, "srun")
	w.stager.LookPath = lookPath(w.fakes)
	_, err := w.stager.Stage(t.Context(), w.item("pyxis"))
	require.NoError(t, err)
	require.Regexp(t, `^\["srun","--export=ALL","--partition=cpu","--account=acc","--mem=0","-N1","--ntasks=1","--job-name=acc-profllm_stage","enroot","import",`, w.calls()[1],
		"as CloudAI does it, without a GPU")
	w.stager.Where = stage.Here
	_, err = w.stager.Stage(t.Context(), w.item("apptainer"))
	require.ErrorContains(t, err, "apptainer is not on the PATH\n\thint: run this on a machine that has apptainer")
	w.stager.Where = ""
	w.stager.LookPath = lookPath()
	_, err = w.stager.Stage(t.Context(), w.item("apptainer"))
	require.ErrorContains(t, err, "neither apptainer nor srun is on the PATH")
}

func TestNothingToImport(t *testing.T) {
	w := newWorld(t)
	_, ok, err := w.stager.ImageItem("/a/b.sqsh", "pyxis")
	require.NoError(t, err)
	require.False(t, ok, "a file is staged already")
	_, ok, err = w.stager.ImageItem("x:1", "bare")
	require.NoError(t, err)
	require.False(t, ok)
	_, _, err = w.stager.ImageItem("x:1@sha256:ab", "pyxis")
	require.ErrorContains(t, err, "by tag, not by digest")
}

// covers: PL-G3
func TestTwoAtOnce(t *testing.T) {
	w := newWorld(t, "enroot")
	w.mode("crowded")
	var wg sync.WaitGroup
	states := make([]string, crowd)
	for i := range states {
		cmd := childCommand(w)
		wg.Go(func() {
			out, err := cmd.Output()
			if err != nil {
				out = []byte(err.Error())
			}
			states[i] = strings.TrimSpace(string(out))
		})
	}
	wg.Wait()
	require.ElementsMatch(t, []string{stage.Staged, stage.Present, stage.Present, stage.Present, stage.Present,
		stage.Present}, states)
	require.Len(t, w.calls(), 1, "exactly one import")
	require.Equal(t, []string{staged, staged + ".json"}, w.files())
}

// childCommand is a Stager in another process.
func childCommand(w *world) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "STAGE_CHILD="+w.dir, "FAKES="+w.fakes)
	return cmd
}

// crowd is how many Stagers want the same image at once.
const crowd = 6

// begun lists the Stagers in other processes that have begun.
func begun(fakes string) []string {
	files, _ := filepath.Glob(filepath.Join(fakes, "begun-*"))
	return files
}

func child() int {
	if err := os.WriteFile(filepath.Join(os.Getenv("FAKES"), fmt.Sprintf("begun-%d", os.Getpid())), nil, 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s := newStager(os.Getenv("STAGE_CHILD"), os.Getenv("FAKES"),
		func(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...) })
	item, _, err := s.ImageItem("nvcr.io#nvidia/vllm:26.01", "pyxis")
	if err == nil {
		var o stage.Outcome
		o, err = s.Stage(context.Background(), item)
		fmt.Println(o.State)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// covers: PL-G3
func TestKilledInTheMiddle(t *testing.T) {
	w := newWorld(t, "enroot")
	w.mode("hang")
	cmd := childCommand(w)
	require.NoError(t, cmd.Start())
	await.File(t, filepath.Join(w.fakes, "hangs"))
	require.Len(t, w.files(), 2, "a lock and a part")
	require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait()
	left, err := stage.List(w.stager.Install(), "here")
	require.NoError(t, err)
	require.Equal(t, []string{stage.Partial, stage.Partial}, []string{left[0].State, left[1].State})

	w.mode("")
	o, err := w.stager.Stage(t.Context(), w.item("pyxis"))
	require.NoError(t, err, "the lock of a dead process is no obstacle")
	require.Equal(t, stage.Staged, o.State)
	require.Equal(t, []string{staged, staged + ".json"}, w.files(), "its part is gone")
}

func TestInterrupted(t *testing.T) {
	w := newWorld(t, "enroot")
	w.mode("hang")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(w.fakes, "hangs")); err == nil {
				cancel()
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	_, err := w.stager.Stage(ctx, w.item("pyxis"))
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, w.files())
}

// lockFile writes a lock as a process of some host would have.
func (w *world) lockFile(o stage.Owner, idle time.Duration) string {
	require.NoError(w.t, os.MkdirAll(w.stager.Install(), 0o755))
	file := filepath.Join(w.stager.Install(), staged+".lock")
	data, err := json.Marshal(o)
	require.NoError(w.t, err)
	require.NoError(w.t, os.WriteFile(file, data, 0o644))
	then := time.Now().Add(-idle)
	require.NoError(w.t, os.Chtimes(file, then, then))
	return file
}

// covers: PL-G3
func TestStaleLock(t *testing.T) {
	self := os.Getpid()
	for _, c := range []struct {
		name  string
		owner stage.Owner
		idle  time.Duration
		stale bool
	}{
		{"a living process of this host", stage.Owner{Host: "here", PID: self, ProcessStart: process.Start(self)}, time.Hour, false},
		{"a later process with its number", stage.Owner{Host: "here", PID: self, ProcessStart: "boot/1"}, 0, true},
		{"another host, touched lately", stage.Owner{Host: "there", PID: 1, ProcessStart: "x"}, time.Minute, false},
		{"another host, silent for long", stage.Owner{Host: "there", PID: 1, ProcessStart: "x"}, time.Hour, true},
		{"nothing in it, new", stage.Owner{}, time.Minute, false},
		{"nothing in it, old", stage.Owner{}, time.Hour, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, "enroot")
			file := w.lockFile(c.owner, c.idle)
			logged := w.stager.Log
			w.stager.Log = func(f string, a ...any) {
				logged(f, a...)
				if !c.stale && strings.HasPrefix(f, "waiting for ") { // released: then it is our turn
					require.NoError(t, os.Remove(file))
				}
			}
			o, err := w.stager.Stage(t.Context(), w.item("pyxis"))
			require.NoError(t, err)
			require.Equal(t, stage.Staged, o.State)
			require.Equal(t, !c.stale, strings.Contains(strings.Join(w.log, "\n"), "waiting for "+staged), w.log)
			require.Equal(t, []string{staged, staged + ".json"}, w.files())
		})
	}
}

func TestDigestMismatch(t *testing.T) {
	w := newWorld(t, "enroot")
	o, err := w.stager.Stage(t.Context(), w.item("pyxis"))
	require.NoError(t, err)
	data := image(5000)
	data[4999] = 1
	require.NoError(t, os.WriteFile(o.Path, data, 0o644))
	_, err = stage.Verify(o.Item)
	require.ErrorIs(t, err, stage.ErrConflict)
	require.ErrorContains(t, err, "its digest is sha256:")
	require.NoError(t, os.WriteFile(o.Path, image(4000), 0o644))
	_, err = w.stager.Stage(t.Context(), w.item("pyxis"))
	require.ErrorContains(t, err, "it has 4000 bytes, its record says 5000\n\thint: rm ")
	list, err := stage.List(w.stager.Install(), "here")
	require.NoError(t, err)
	require.Equal(t, stage.Differs, list[0].State)
}

// Two names that CloudAI's cache gives the same file are told apart by the record.
func TestTwoImagesOneFile(t *testing.T) {
	w := newWorld(t, "enroot")
	first, _, err := w.stager.ImageItem("a/b/c:1", "pyxis")
	require.NoError(t, err)
	_, err = w.stager.Stage(t.Context(), first)
	require.NoError(t, err)
	second, _, err := w.stager.ImageItem("a_b/c:1", "pyxis")
	require.NoError(t, err)
	require.Equal(t, first.Path, second.Path)
	_, err = w.stager.Stage(t.Context(), second)
	require.ErrorIs(t, err, stage.ErrConflict)
	same, _, err := w.stager.ImageItem("docker://a/b/c:1", "pyxis")
	require.NoError(t, err)
	o, err := w.stager.Stage(t.Context(), same)
	require.NoError(t, err)
	require.Equal(t, stage.Present, o.State)
}

func TestPrune(t *testing.T) {
	w := newWorld(t, "enroot")
	o, err := w.stager.Stage(t.Context(), w.item("pyxis"))
	require.NoError(t, err)
	dir := w.stager.Install()
	for name, data := range map[string]string{
		"cloudai__image__1.sqsh": "x", ".gone__1.sqsh.partial-here-1.sqsh": "x", "gone__1.sqsh.lock": `{"host":"here","pid":1,"process_start":"x"}`,
		"lost__1.sqsh.json": `{"schema":"profllm.image/1"}`, "slurm-metadata.sh": "x",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644))
	}
	old := time.Now().Add(-48 * time.Hour)
	require.NoError(t, os.Chtimes(o.Path, old, old))
	states := func(list []stage.Entry) map[string]string {
		m := map[string]string{}
		for _, e := range list {
			m[filepath.Base(e.Path)] = e.State
		}
		return m
	}
	list, err := stage.List(dir, "here")
	require.NoError(t, err)
	rest := map[string]string{".gone__1.sqsh.partial-here-1.sqsh": stage.Partial, "gone__1.sqsh.lock": stage.Partial,
		"lost__1.sqsh.json": stage.Orphaned}
	want := map[string]string{staged: stage.Good, "cloudai__image__1.sqsh": stage.Foreign}
	for k, v := range rest {
		want[k] = v
	}
	require.Equal(t, want, states(list))

	gone, err := stage.Prune(dir, "here", 0, time.Now(), true)
	require.NoError(t, err)
	require.Equal(t, rest, states(gone))
	again, err := stage.List(dir, "here")
	require.NoError(t, err)
	require.Len(t, again, len(list), "a dry run removes nothing")
	_, err = stage.Prune(dir, "here", 0, time.Now(), false)
	require.NoError(t, err)
	require.Equal(t, []string{"cloudai__image__1.sqsh", staged, staged + ".json", "slurm-metadata.sh"}, w.files())
	_, err = stage.Prune(dir, "here", 24*time.Hour, time.Now(), false)
	require.NoError(t, err)
	require.Equal(t, []string{"cloudai__image__1.sqsh", "slurm-metadata.sh"}, w.files(), "what others left stays")
	none, err := stage.List(filepath.Join(dir, "none"), "here")
	require.NoError(t, err)
	require.Empty(t, none)
}

// covers: PL-D24
func TestModel(t *testing.T) {
	w := newWorld(t, "hf")
	hub := filepath.Join(w.dir, "hf", "hub")
	item := stage.Item{Kind: stage.Model, Name: "Qwen/Qwen3-0.6B", Path: filepath.Join(hub, "models--Qwen--Qwen3-0.6B")}
	o, err := w.stager.Stage(t.Context(), item)
	require.NoError(t, err)
	require.Equal(t, stage.Staged, o.State)
	require.Equal(t, []string{`["hf","download","Qwen/Qwen3-0.6B","--cache-dir","` + hub + `"]`}, w.calls())
	home, err := os.ReadFile(filepath.Join(item.Path, "snapshots/abc/config.json"))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(w.dir, "hf"), string(home))
	o, err = w.stager.Stage(t.Context(), item)
	require.NoError(t, err)
	require.Equal(t, stage.Present, o.State)

	w.mode("empty")
	none := stage.Item{Kind: stage.Model, Name: "a/b", Path: filepath.Join(hub, "models--a--b")}
	_, err = w.stager.Stage(t.Context(), none)
	require.ErrorContains(t, err, "holds no complete snapshot")

	w.stager.LookPath = lookPath()
	o, err = w.stager.Stage(t.Context(), none)
	require.NoError(t, err)
	require.Equal(t, stage.Skipped, o.State)
	require.Contains(t, o.Detail, "neither hf nor huggingface-cli")
	w.stager.System.HFHomePath = "/not/here/hf"
	o, err = w.stager.Stage(t.Context(), none)
	require.NoError(t, err)
	require.Equal(t, stage.Skipped, o.State)
	require.Contains(t, o.Detail, "not reachable here")
}

// covers: CD-4, CD-8
func TestItems(t *testing.T) {
	data := `
name = "s"
[[Tests]]
id = "a"
test_template_name = "vllm"
cmd_args = { docker_image_url = "nvcr.io#nvidia/vllm:26.01", model = "Qwen/Qwen3-0.6B" }
git_repos = [{ url = "https://h/x/repo.git", commit = "feature/x" }]
proxy_script_repo = { url = "https://h/proxy", commit = "v1" }
[[Tests]]
id = "b"
test_template_name = "vllm"
cmd_args = { docker_image_url = "nvcr.io#nvidia/vllm:26.01", model = "/models/own" }
git_repos = [{ url = "https://h/x/repo.git", commit = "feature/x" }]
`
	s, err := scenario.Load(scenario.File{Name: "s.toml", Data: []byte(data)}, nil, scenario.HookFiles{})
	require.NoError(t, err)
	text := func(key string) func(scenario.Test) string {
		return func(t scenario.Test) string { v, _ := t.CmdArgs.Get(key).Text(); return v }
	}
	site := stage.Site{System: &config.System{InstallPath: "install"}, WorkDir: "/w", Image: text("docker_image_url"),
		Model:    text("model"),
		Launcher: func(scenario.Test) string { return "apptainer" }}
	items, err := stage.Items(s.Tests, site)
	require.NoError(t, err)
	var lines []string
	for _, i := range items {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s %v %s", i.Kind, i.Name, i.Path, i.Tests, i.Skip)))
	}
	require.Equal(t, []string{
		"image nvcr.io#nvidia/vllm:26.01 /w/install/nvcr.io_nvidia__vllm__26.01.sif [a b]",
		"repository https://h/x/repo.git@feature/x /w/install/repo__feature_x [a b]",
		"repository https://h/proxy@v1 /w/install/proxy__v1 [a]",
		"model Qwen/Qwen3-0.6B /w/install/huggingface/hub/models--Qwen--Qwen3-0.6B [a]",
		"model /models/own /models/own [b] a path, not a name at Hugging Face",
	}, lines)

	for _, repo := range []scenario.GitRepo{
		{URL: "-u", Commit: "1"}, {URL: "ext::sh -c x", Commit: "1"}, {URL: "https://h/r", Commit: "--x"}, {URL: "https://h/r", Commit: "a..b"}, {URL: "https://h/", Commit: "1"},
		{URL: "https://h/..", Commit: "1"}, {URL: "https://h/r", Commit: ""},
	} {
		test := s.Tests[0]
		test.GitRepos = []scenario.GitRepo{repo}
		_, err := stage.Items([]scenario.Test{test}, site)
		require.ErrorContains(t, err, "s.toml:", "%v", repo)
	}
	test := s.Tests[0]
	test.GitRepos = append(test.GitRepos, scenario.GitRepo{URL: "https://other/repo", Commit: "feature_x"})
	_, err = stage.Items([]scenario.Test{test}, site)
	require.ErrorContains(t, err, "would both be stored as /w/install/repo__feature_x")
	var e *source.Error
	require.ErrorAs(t, err, &e)
}
