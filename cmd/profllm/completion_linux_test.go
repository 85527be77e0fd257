package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
)

// typed are lines with the cursor at their end, and what the Tab key makes of
// them; every shell must agree.
var typed = []struct{ line, want string }{
	{"profllm slu", "profllm slurm"},
	{"profllm slurm sub", "profllm slurm submit"},
	{"profllm nightly --quie", "profllm nightly --quiet"},
	{"profllm nightly --output j", "profllm nightly --output json"},
	{"profllm nightly --output=j", "profllm nightly --output=json"},
	{"profllm nightly scene", "profllm nightly scene one.toml"},
	{"profllm nightly --system sit", "profllm nightly --system site.toml"},
	{"profllm nightly --system=sit", "profllm nightly --system=site.toml"},
	{"profllm report --output csv fol", "profllm report --output csv folder"},
	{"profllm completion f", "profllm completion fish"},
	{"profllm slurm nonsens", "profllm slurm nonsens"},
}

// completionDir is a folder with files to complete, and a PATH with profllm.
func completionDir(t *testing.T, shell string) (dir, path string) {
	t.Helper()
	if _, err := exec.LookPath(shell); err != nil {
		t.Skip("no " + shell + " here")
	}
	dir, bin := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(binary, filepath.Join(bin, "profllm")))
	for _, name := range []string{"scene one.toml", "site.toml"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	return dir, bin + ":" + os.Getenv("PATH")
}

func TestCompletionBash(t *testing.T) {
	t.Parallel()
	s := startShell(t, "bash", "--norc", "--noprofile", "-i")
	s.do(`bind 'set enable-bracketed-paste off'; source <(profllm completion bash)`)
	testTyped(t, s)
	require.Equal(t, []string{"profllm", "slurm", "submit", "--wait", "--watch"},
		s.words("profllm slurm submit --wa\x1b*"), "M-* inserts all candidates")
}

func TestCompletionZsh(t *testing.T) {
	t.Parallel()
	s := startShell(t, "zsh", "-f", "-i")
	s.do(`bindkey -e; unsetopt prompt_cr prompt_sp zle_bracketed_paste; zle_bracketed_paste=(); autoload -U compinit; compinit -u -D; source <(profllm completion zsh)`)
	testTyped(t, s)
}

func testTyped(t *testing.T, s *shell) {
	t.Helper()
	for _, c := range typed {
		got := strings.Join(s.words(c.line+"\t"), " ")
		require.Equal(t, c.want, strings.TrimRight(got, " /"), c.line)
	}
}

// fish answers the question itself.
func TestCompletionFish(t *testing.T) {
	t.Parallel()
	dir, path := completionDir(t, "fish")
	for _, c := range append(slices.Clone(typed),
		struct{ line, want string }{"profllm slurm submit --wa", "profllm slurm submit --wait --watch"},
		struct{ line, want string }{"profllm nightly --output ", "profllm nightly --output json text"}) {
		cmd := exec.Command("fish", "--no-config", "-c", `profllm completion fish | source; complete -C $argv[1]`,
			c.line)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + path, "HOME=" + t.TempDir()}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		got := []string{c.line[:strings.LastIndexByte(c.line, ' ')]}
		for line := range strings.Lines(string(out)) {
			word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			got = append(got, strings.ReplaceAll(word, `\ `, " "))
		}
		if c.line == "profllm slurm nonsens" {
			require.Empty(t, string(out))
			continue
		}
		require.Equal(t, c.want, strings.TrimSuffix(strings.Join(got, " "), "/"), c.line)
	}
}

// shell is an interactive one on a terminal of its own.
type shell struct {
	t        *testing.T
	terminal *os.File
	mu       sync.Mutex
	seen     bytes.Buffer
	commands int
}

func startShell(t *testing.T, argv ...string) *shell {
	t.Helper()
	dir, path := completionDir(t, argv[0])
	master, slave := openTerminal(t)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + path, "HOME=" + t.TempDir(), "TERM=dumb", "LC_ALL=C", "ZDOTDIR=" + t.TempDir(),
		"PS1=> "}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, slave.Close())
	s := &shell{t: t, terminal: master}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			s.mu.Lock()
			s.seen.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		master.Close()
		<-done
	})
	return s
}

// openTerminal returns both ends of a pseudo terminal (pts(4)).
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	raw, err := master.SyscallConn()
	require.NoError(t, err)
	var unlock, number uint32
	require.NoError(t, raw.Control(func(fd uintptr) {
		for request, arg := range map[uintptr]*uint32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &number} {
			_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(arg)))
			require.Zero(t, errno)
		}
	}))
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	return master, slave
}

var word = regexp.MustCompile(`(?m)^GOT<(.*?)>\r?$`)

// words types a line, goes to its beginning, and has the shell print its words.
func (s *shell) words(line string) []string {
	s.t.Helper()
	var list []string
	for _, m := range word.FindAllStringSubmatch(s.do(line+"\x01printf 'GOT<%s>\\n' "), -1) {
		list = append(list, m[1])
	}
	return list
}

// do types a command, and returns what the terminal showed until it was over.
func (s *shell) do(line string) string {
	s.t.Helper()
	s.mu.Lock()
	s.seen.Reset()
	s.mu.Unlock()
	s.commands++
	_, err := fmt.Fprintf(s.terminal, "%s\recho 'over'-%d\r", line, s.commands)
	require.NoError(s.t, err)
	over := fmt.Sprintf("over-%d", s.commands)
	var text string
	await.True(s.t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		text = s.seen.String()
		return strings.Contains(text, over)
	}, "the shell answers; it has said:\n%s", &text)
	return text
}
