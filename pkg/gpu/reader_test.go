package gpu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/internal/gputest"
)

const (
	hello = `{"profllm_nvml":1,"version":"v1","nvml":"12.570.86.15","driver":"570.86.15","cuda":"12.8","gpus":2}` +
		"\n"
	gpuZero = `{"index":0,"uuid":"GPU-aaaa","name":"NVIDIA H100","memory":85520809984,"memory_used":7340032,` +
		`"setup":{"power_limit_w":700,"max_sm_clock_mhz":1980,"persistence":"Enabled","mig":"Disabled"}}` + "\n"
	gpuOne    = `{"index":1,"uuid":"GPU-bbbb","name":"NVIDIA H100","memory":85520809984,"memory_used":0,"processes":[{"pid":4711,"memory_used":1048576}]}` + "\n"
	firstLook = "1795000000000,0,GPU-aaaa,97,70123,689.25,1234567,1980,2619,61,0x4\n1795000000000,1,GPU-bbbb,0,3,,,345,,28,0x1\n"
)

// readerOf is a profllm-nvml that is this script.
func readerOf(t *testing.T, script string) Reader {
	t.Helper()
	file := filepath.Join(t.TempDir(), Program)
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+script), 0o755))
	return Reader{NVML: file}
}

// says is a script that prints a text.
func says(text string) string { return "cat <<'END'\n" + text + "END\n" }

// covers: PL-G13
func TestReaderLists(t *testing.T) {
	t.Setenv("PATH", t.TempDir()+":/usr/bin:/bin") // no nvidia-smi
	got, err := readerOf(t, says(hello+gpuZero+gpuOne)).List(t.Context())
	require.NoError(t, err)
	require.Equal(t, Listing{Devices: []Device{
		{Index: 0, UUID: "GPU-aaaa", Name: "NVIDIA H100", Driver: "570.86.15", Reader: "nvml 12.570.86.15", Total: 85520809984, Used: 7 * mib,
			Setup: &Setup{CUDA: "12.8", PowerLimit: 700, MaxClock: 1980, Persistence: "Enabled", MIG: "Disabled"}},
		{Index: 1, UUID: "GPU-bbbb", Name: "NVIDIA H100", Driver: "570.86.15", Reader: "nvml 12.570.86.15", Total: 85520809984,
			Processes: []Process{{PID: 4711, Used: mib}}},
	}}, got)
	require.NoError(t, AddSetup(t.Context(), got.Devices[:1]), "there is nothing left to ask nvidia-smi")
}

// Whatever is wrong with the reader, nvidia-smi is asked, and one note says why.
func TestReaderFallsBack(t *testing.T) {
	fakeSMI(t, twoDevices, oneProcess)
	cases := map[string]struct{ script, why string }{
		"another format":  {says(strings.Replace(hello, `:1,`, `:2,`, 1)), "it speaks format 2, this profllm reads format 1: install both from one release"},
		"no greeting":     {"echo Segmentation fault\n", `the first line is not a greeting of profllm-nvml: "Segmentation fault"`},
		"another JSON":    {"echo '{\"gpus\":2}'\n", "the first line is not a greeting"},
		"nothing":         {"echo 'libc.so.6: version GLIBC_2.99 not found' >&2; exit 1\n", "no first line: EOF: libc.so.6: version GLIBC_2.99 not found (exit status 1)"},
		"half a greeting": {"printf '{\"profllm_nvml\":1'", "no first line: unexpected EOF"},
		"no number":       {says(strings.Replace(hello, `"gpus":2`, `"gpus":-1`, 1)), "-1 is not a possible number of GPUs"},
		"odd version":     {says(strings.Replace(hello, `"570.86.15"`, `"5\u001b7"`, 1)), "is invalid"},
		"no library":      {says(`{"profllm_nvml":1,"error":"libnvidia-ml.so.1 is not here","no_driver":true}` + "\n"), "profllm-nvml: libnvidia-ml.so.1 is not here"},
		"mismatch":        {says(`{"profllm_nvml":1,"error":"nvml: init: version mismatch"}` + "\n"), "nvml: init: version mismatch"},
		"a GPU is lost":   {says(hello+gpuZero+`{"error":"nvml: device 1: GPU is lost"}`+"\n") + "exit 1\n", "nvml: device 1: GPU is lost"},
		"garbage":         {says(hello + gpuZero + "garbage\n"), `GPU 1: "garbage" is not a device`},
		"one is missing":  {says(hello + gpuZero), "GPU 1 of 2: EOF"},
		"one too many":    {says(hello + gpuZero + gpuOne + strings.Replace(gpuOne, `"index":1`, `"index":2`, 1)), "more than 2 GPUs"},
		"order":           {says(hello + gpuOne + gpuZero), "GPU 1, but GPU 0 was expected"},
		"dies":            {says(hello+gpuZero) + "kill -SEGV $$\n", "GPU 1 of 2: EOF (signal: segmentation fault"},
		"fails at last":   {says(hello+gpuZero+gpuOne) + "exit 3\n", "exit status 3"},
		"long line":       {"head -c 200000 /dev/zero | tr '\\0' x\n", "a line is longer than 65536 bytes"},
		"no end":          {says(hello) + "exec yes\n", `GPU 0: "y" is not a device`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := readerOf(t, c.script).List(t.Context())
			require.NoError(t, err)
			require.Len(t, got.Devices, 2)
			require.Equal(t, "nvidia-smi", got.Devices[0].Reader)
			require.Contains(t, got.Note, "nvidia-smi is used, which has no energy counter: ")
			require.Contains(t, got.Note, c.why)
			require.NotContains(t, got.Note, "\n")
		})
	}
	dir := t.TempDir()
	got, err := Beside(filepath.Join(dir, "profllm")).List(t.Context())
	require.NoError(t, err)
	require.Equal(t, "nvidia-smi is used, which has no energy counter: no profllm-nvml in "+dir, got.Note)
	require.NoError(t, os.WriteFile(filepath.Join(dir, Program), []byte("text"), 0o644))
	got, err = Beside(filepath.Join(dir, "profllm")).List(t.Context())
	require.NoError(t, err)
	require.Contains(t, got.Note, "permission denied")
	got, err = Reader{}.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, got.Note, "nobody was to ask NVML")
}

// A reader that hangs leaves nvidia-smi time to answer.
func TestReaderHangs(t *testing.T) {
	fakeSMI(t, twoDevices, oneProcess)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r := readerOf(t, "exec sleep 7200\n")
	before := listLimit
	listLimit = 100 * time.Millisecond
	t.Cleanup(func() { listLimit = before })
	got, err := r.List(ctx)
	require.NoError(t, err)
	require.Contains(t, got.Note, r.NVML+": no answer within 100ms")
}

// Without nvidia-smi the reader's word counts: a driver that is broken is there.
func TestReaderWithoutProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir()+":/usr/bin:/bin")
	broken := readerOf(t, says(`{"profllm_nvml":1,"error":"nvml: init: version mismatch"}`+"\n"))
	_, err := broken.List(t.Context())
	require.ErrorContains(t, err, "nvml: init: version mismatch")
	require.NotErrorIs(t, err, ErrNoDriver)
	err = broken.Watch(t.Context(), Watching{Interval: time.Second, Now: time.Now})
	require.ErrorContains(t, err, "nvml: init: version mismatch")
	none := readerOf(t, says(`{"profllm_nvml":1,"error":"libnvidia-ml.so.1 is not here","no_driver":true}`+"\n"))
	for _, r := range []Reader{none, {}, {NVML: "/nowhere"}} {
		_, err = r.List(t.Context())
		require.ErrorIs(t, err, ErrNoDriver)
		require.ErrorIs(t, r.Watch(t.Context(), Watching{Interval: time.Second, Now: time.Now}), ErrNoDriver)
	}
}

func TestWhich(t *testing.T) {
	t.Setenv("PATH", t.TempDir()+":/usr/bin:/bin")
	which := func(r Reader) string {
		by, note := r.Which(t.Context())
		return by + "|" + note
	}
	good := readerOf(t, says(hello+gpuZero+gpuOne))
	none := readerOf(t, says(`{"profllm_nvml":1,"error":"not here","no_driver":true}`+"\n"))
	require.Equal(t, "nvml 12.570.86.15|", which(good))
	require.Equal(t, "|no NVIDIA driver", which(none))
	require.Equal(t, "|no NVIDIA driver", which(Reader{}))
	require.Equal(t, "|no nvml in /nowhere, and no nvidia-smi", which(Reader{NVML: "/nowhere/nvml"}))
	fakeSMI(t, twoDevices, "")
	require.Equal(t, "nvidia-smi|profllm-nvml: not here", which(none))
	require.Equal(t, "nvidia-smi|", which(Reader{}))
}

// taken are the samples and notes of a watch until there are so many looks.
func taken(t *testing.T, r Reader, looks int) (list []Sample, notes []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	err := r.Watch(ctx, Watching{Interval: 100 * time.Millisecond, Now: then,
		Note: func(text string) { notes = append(notes, text) },
		Take: func(look []Sample) error {
			list = append(list, look...)
			if n++; n == looks {
				cancel()
			}
			return nil
		}})
	require.NoError(t, err)
	return list, notes
}

// covers: PL-V26, PL-V33
func TestReaderWatches(t *testing.T) {
	list, notes := taken(t, readerOf(t,
		"[ \"$*\" = 'watch 100' ] || exit 2\n"+says(hello+firstLook+firstLook)+"exec sleep 7200\n"), 2)
	require.Empty(t, notes)
	require.Len(t, list, 4)
	require.Equal(t, Sample{Time: time.UnixMilli(1795000000000).UTC(), UUID: "GPU-aaaa", Use: new(97.0),
		Memory: new(70123.0), Power: new(689.25),
		Energy: new(1234567.0), SM: new(1980.0), Mem: new(2619.0), Temp: new(61.0), Reasons: new(SWPowerCap)}, list[0])
	full := errors.New("disk full")
	err := readerOf(t, says(hello+firstLook)+"exec sleep 7200\n").
		Watch(t.Context(), Watching{Interval: time.Second, Now: then, Take: func([]Sample) error { return full }})
	require.Equal(t, full, err, "nvidia-smi could not write it either")
}

// nvidia-smi goes on where the reader ends, and one note says why.
func TestWatchFallsBack(t *testing.T) {
	program(t, says(twoLooks)+"exec sleep 7200\n")
	for name, c := range map[string]struct {
		script, why string
		before      int
	}{
		"dies":           {says(hello+firstLook) + "exit 7\n", "it should have continued (exit status 7)", 2},
		"half a look":    {says(hello+firstLook) + "printf '1795000000000,0,GPU'; exit 7\n", "unexpected EOF", 2},
		"garbage":        {says(hello+firstLook+"garbage\n") + "exec sleep 7200\n", `"garbage" is not a sample: 1 fields instead of 11`, 2},
		"GPU lost":       {says(hello + firstLook + `{"error":"nvml: GPU is lost"}` + "\n"), "nvml: GPU is lost", 2},
		"order":          {says(hello+firstLook[strings.Index(firstLook, "\n")+1:]) + "exec sleep 7200\n", "a sample of GPU 1, but GPU 0 was expected", 0},
		"another format": {says(strings.Replace(hello, `:1,`, `:9,`, 1)) + "exec sleep 7200\n", "it speaks format 9", 0},
		"no GPU":         {says(strings.Replace(hello, `"gpus":2`, `"gpus":0`, 1)), "NVML sees no GPU", 0},
		"long line":      {says(hello) + "head -c 2000 /dev/zero | tr '\\0' x; echo; exec sleep 7200\n", "a line is longer than", 0},
		"silent":         {says(hello+firstLook) + "exec sleep 7200\n", "no sample for ", 2},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "silent" {
				before := stallLimit
				stallLimit = 300 * time.Millisecond
				t.Cleanup(func() { stallLimit = before })
			}
			list, notes := taken(t, readerOf(t, c.script), c.before/2+1)
			require.Greater(t, len(list), c.before)
			require.Nil(t, list[c.before].Energy, "nvidia-smi has no counter")
			require.Len(t, notes, 1)
			require.Contains(t, notes[0], "nvidia-smi is used, which has no energy counter: ")
			require.Contains(t, notes[0], c.why)
		})
	}
}

// The real reader, on a simulated library: every number here is made up.
func TestReaderProgram(t *testing.T) {
	r := Reader{NVML: gputest.Reader(t, os.Environ())}
	library := gputest.Library(t, os.Environ())
	fakeSMI(t, twoDevices, oneProcess)
	t.Run("no library", func(t *testing.T) {
		if _, err := r.ask(t.Context()); err == nil {
			t.Skip("this machine has the driver's library")
		}
		got, err := r.List(t.Context())
		require.NoError(t, err)
		require.Equal(t, "nvidia-smi is used, which has no energy counter: profllm-nvml: libnvidia-ml.so.1 is not here, or cannot be opened", got.Note)
	})
	t.Setenv("LD_LIBRARY_PATH", library)
	t.Run("lists", func(t *testing.T) {
		got, err := r.List(t.Context())
		require.NoError(t, err)
		require.Empty(t, got.Note)
		require.Equal(t, Device{Index: 1, UUID: "GPU-00000000-0000-0000-0000-000000000001", Name: "Simulated GPU",
			Driver: "0.0.1", Reader: "nvml 0.0.1-simulated",
			Total: 81559 * mib, Used: 4001 * mib, Processes: []Process{{PID: 4712, Used: 3900 * mib}},
			Setup: &Setup{CUDA: "12.8", PowerLimit: 700, MaxClock: 1980, Persistence: "Enabled", MIG: "Disabled"}},
			got.Devices[1])
	})
	t.Run("watches", func(t *testing.T) {
		list, notes := taken(t, r, 5)
		require.Empty(t, notes)
		require.Len(t, list, 10)
		first, last := list[0], list[8]
		require.WithinDuration(t, time.Now(), last.Time, time.Minute)
		require.Greater(t, *last.Energy, *first.Energy)
		require.Equal(t, Sample{Time: first.Time, UUID: "GPU-00000000-0000-0000-0000-000000000000", Use: new(97.0),
			Memory: new(4000.0), Power: new(350.0),
			Energy: first.Energy, SM: new(1980.0), Mem: new(2619.0), Temp: new(61.0), Reasons: new(SWPowerCap)}, first)
	})
	t.Run("outlives TERM, and ends with its pipe", func(t *testing.T) {
		cmd := exec.Command(r.NVML, "watch", "20")
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		in := bufio.NewReader(out)
		_, err = readHello(in)
		require.NoError(t, err)
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		for range 10 {
			_, err = nextLine(in)
			require.NoError(t, err)
		}
		require.NoError(t, out.Close())
		require.ErrorContains(t, cmd.Wait(), "broken pipe")
	})
	for name, c := range map[string]struct{ words, why string }{
		"mismatch": {"init=18", "nvml: init: "},
		"unloaded": {"init=9", "the NVIDIA driver is not loaded"},
		"lost":     {"lost=1", "nvml: device 1: uuid: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SIMULATED_NVML", c.words)
			got, err := r.List(t.Context())
			require.NoError(t, err)
			require.Contains(t, got.Note, c.why)
		})
	}
	t.Run("dies", func(t *testing.T) {
		program(t, says(twoLooks)+"exec sleep 7200\n")
		t.Setenv("SIMULATED_NVML", "die=3")
		list, notes := taken(t, r, 2)
		require.Len(t, notes, 1)
		require.Contains(t, notes[0], "exit status 7")
		require.NotNil(t, list[0].Energy)
		require.Nil(t, list[2].Energy)
	})
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(hello + gpuZero + gpuOne))
	f.Add([]byte(hello + firstLook + firstLook))
	f.Add([]byte(hello + gpuZero + `{"error":"nvml: GPU is lost"}` + "\n"))
	f.Add([]byte(strings.Replace(hello, `:1,`, `:2,`, 1)))
	f.Add([]byte(`{"profllm_nvml":1,"no_driver":true,"error":"` + "\x1b[31m" + `"}` + "\n"))
	f.Add([]byte(strings.Replace(hello, `"gpus":2`, `"gpus":1`,
		1) + `{"index":0,"uuid":"G","name":"x","memory":1e30,"processes":[{"pid":-1}]}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := func() *bufio.Reader { return bufio.NewReaderSize(strings.NewReader(string(data)), longestJSON) }
		h, err := readHello(in())
		if err != nil {
			require.NotContains(t, clean(err.Error()), "\n")
			return
		}
		require.True(t, h.GPUs >= 0 && h.GPUs <= mostGPUs)
		require.True(t, plainWord(h.NVML) && plainWord(h.Driver))
		b := in()
		_, _ = readHello(b)
		if devices, err := readDevices(b, h); err == nil {
			require.Len(t, devices, h.GPUs)
			for i, d := range devices {
				require.Equal(t, i, d.Index)
				require.True(t, d.Total >= 0 && d.Used >= 0)
				for _, p := range d.Processes {
					require.Positive(t, p.PID)
				}
				_, err := json.Marshal(d)
				require.NoError(t, err)
			}
		}
		if h.GPUs == 0 {
			return
		}
		b = in()
		_, _ = readHello(b)
		err = readLooks(b, h, func() {}, func(look []Sample) error {
			require.Len(t, look, h.GPUs)
			for i, s := range look {
				require.Equal(t, i, s.Index)
				for _, v := range s.numbers() {
					require.True(t, *v == nil || **v >= 0 && **v <= mostNumber, fmt.Sprint(v))
				}
			}
			return nil
		})
		require.Error(t, err, "a reader does not end by itself")
	})
}
