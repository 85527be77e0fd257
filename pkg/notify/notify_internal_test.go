package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// script writes a hook and returns its path.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a hook")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755))
	return path
}

// hook parses a command, and collects what it logs.
func hook(t *testing.T, command string) (*Hook, *[]string) {
	t.Helper()
	h, err := Parse(command)
	require.NoError(t, err)
	var lines []string
	h.Environ, h.pause = os.Environ(), time.Millisecond
	h.Log = func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	return h, &lines
}

var event = Event{
	Kind: "night", Time: time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC), Scenario: "qwen",
	Run: "/results/qwen $(touch x)", Code: 6,
	Lines: []string{`regressed: "a"; rm -rf /`},
}

func TestSend(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	h, lines := hook(t, fmt.Sprintf(`%q %q '$HOME; id'`, script(t, `
		cat > "$1"; printf '%s\n' "$2" "$PROFLLM_EVENT" "$PROFLLM_SCENARIO" "$PROFLLM_RUN" "$PROFLLM_EXIT_CODE" > "$1.env"`), out))
	require.True(t, h.Send(t.Context(), event))
	require.Empty(t, *lines)
	data, err := os.ReadFile(out)
	require.NoError(t, err)
	var got Event
	require.NoError(t, json.Unmarshal(data, &got))
	want := event
	want.Schema = "profllm.event/1"
	require.Equal(t, want, got)
	env, err := os.ReadFile(out + ".env")
	require.NoError(t, err)
	require.Equal(t, "$HOME; id\nnight\nqwen\n/results/qwen $(touch x)\n6\n", string(env))
}

// covers: PL-D13
func TestShownAndRetriedOnce(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	tries := func() int {
		data, _ := os.ReadFile(count)
		return strings.Count(string(data), "x")
	}
	h, lines := hook(t, fmt.Sprintf("%q %q", script(t, `printf x >> "$1"; echo 502 from the chat; exit 3`), count))
	require.False(t, h.Send(t.Context(), event))
	require.Equal(t, 2, tries())
	require.Len(t, *lines, 2)
	require.Contains(t, (*lines)[0], "exit status 3: 502 from the chat")
	require.Contains(t, (*lines)[1], "no notification was sent")

	require.NoError(t, os.Remove(count))
	h, lines = hook(t, fmt.Sprintf("%q %q", script(t, `printf x >> "$1"; [ "$(cat "$1")" = xx ]`), count))
	require.True(t, h.Send(t.Context(), event))
	require.Equal(t, 2, tries())
	require.Len(t, *lines, 1)
}

func TestHookThatHangs(t *testing.T) {
	h, lines := hook(t, fmt.Sprintf("%q", script(t, "sleep 600 & sleep 600")))
	h.Limit = 50 * time.Millisecond
	require.False(t, h.Send(t.Context(), event))
	require.Len(t, *lines, 2)
	require.Contains(t, (*lines)[1], "timed out after 50ms")
}

// A hook may leave a process behind, and need not read the event.
func TestHookThatSucceedsOddly(t *testing.T) {
	big := event
	big.Lines = []string{strings.Repeat("x", 1<<20)}
	h, lines := hook(t, "true")
	require.True(t, h.Send(t.Context(), big))
	h, _ = hook(t, fmt.Sprintf("%q", script(t, "sleep 3 & exit 0")))
	require.True(t, h.Send(t.Context(), event))
	require.Empty(t, *lines)
}

func TestHookThatPrintsMuch(t *testing.T) {
	h, lines := hook(t, fmt.Sprintf("%q",
		script(t, "head -c 100000 /dev/zero | tr '\\0' y; echo; echo the end; exit 1")))
	require.False(t, h.Send(t.Context(), event))
	require.Contains(t, (*lines)[1], "the end")
	require.Less(t, len((*lines)[1]), 3000)
}

func TestNoProgram(t *testing.T) {
	h, lines := hook(t, "/nowhere/hook")
	require.False(t, h.Send(t.Context(), event))
	require.Len(t, *lines, 2)
	require.Contains(t, (*lines)[1], "no such file")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h, lines = hook(t, "sleep 600")
	require.False(t, h.Send(ctx, event))
	require.Len(t, *lines, 1, "no second try of an interrupted command")
}

func TestParse(t *testing.T) {
	for _, bad := range []string{"", "  ", "''", `tell "me`} {
		_, err := Parse(bad)
		require.Error(t, err, bad)
	}
	h, err := Parse(`/bin/tell 'bench bot' --to=a\ b ""`)
	require.NoError(t, err)
	require.Equal(t, []string{"/bin/tell", "bench bot", "--to=a b", ""}, h.Argv)
}

// A command that cannot run is refused before any work, and not at the first event.
//
// covers: PL-D13
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	for command, want := range map[string]string{
		"/nowhere/hook":                               "stat /nowhere/hook: no such file or directory",
		"no-such-program-here --to me":                "no program \"no-such-program-here\" on the PATH\n\thint: name its whole path",
		dir:                                           dir + " cannot be run: is a directory",
		file("plain", "#!/bin/sh\n", 0o644):           "/plain is not executable\n\thint: chmod +x ",
		file("headless", "echo hello\n", 0o755):       "/headless has no #! line, and no shell runs it\n\thint: begin it with #!/bin/sh",
		file("empty", "", 0o755):                      "/empty has no #! line",
		file("nobody", "#!\n", 0o755):                 "/nobody names no interpreter",
		file("lost", "#! /usr/bin/pyhton -u", 0o755):  "/lost: its interpreter \"/usr/bin/pyhton\" cannot be run: ",
		file("carriage", "#!/bin/sh\r\nexit", 0o755):  `/carriage: its interpreter "/bin/sh\r" cannot be run: `,
		file("pathless", "#!sh -e\n", 0o755):          "/pathless: its interpreter \"sh\" is no path, and the system searches no PATH for it\n\thint: begin it with #!/usr/bin/env sh",
		file("good", "#!/bin/sh\n", 0o755) + " 'a b'": "",
		file("program", "\x7fELF\x02\x01\x00", 0o755): "",
		"true": "",
	} {
		h, err := Parse(command)
		require.NoError(t, err)
		if err = h.Check(); want == "" {
			require.NoError(t, err, command)
			continue
		}
		require.ErrorContains(t, err, want, command)
	}
}
