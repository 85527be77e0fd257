// Package pgtest gives tests databases of a real PostgreSQL, which it starts from the programs of
// this machine, on a socket in a temporary folder.
package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/profllm/profllm/pkg/await"
)

// Server is a PostgreSQL.
type Server struct {
	bin, dir string
	as       *syscall.Credential // nil: who runs the test
	process  *exec.Cmd
	log      bytes.Buffer
	made     int
	mu       sync.Mutex
}

// shared is the server of the tests of a package.
var shared struct {
	sync.Mutex
	server *Server
}

// Database is the URL of a new, empty database. Without PostgreSQL, the test is skipped, unless
// PROFLLM_REQUIRE_POSTGRES=1. The TestMain of the package calls Stop.
func Database(t testing.TB, environ []string) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		s, err := start(t)
		if err != nil {
			if required(environ) {
				t.Fatal(err)
			}
			t.Skip(err)
		}
		shared.server = s
	}
	return shared.server.Database(t)
}

// Stop ends the server that Database started.
func Stop() {
	shared.Lock()
	defer shared.Unlock()
	if s := shared.server; s != nil {
		s.Kill()
		os.RemoveAll(s.dir)
		shared.server = nil
	}
}

// New starts a server for one test.
func New(t testing.TB, environ []string) *Server {
	t.Helper()
	s, err := start(t)
	if err != nil {
		if required(environ) {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() {
		s.Kill()
		os.RemoveAll(s.dir)
	})
	return s
}

// programs is the folder with initdb and postgres.
func programs() (string, error) {
	var folders []string
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		folders = append(folders, strings.TrimSpace(string(out)))
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Reverse(found)
	for _, dir := range append(folders, found...) {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("PostgreSQL is not installed: apt-get install postgresql")
}

// start makes a server in a folder of its own. initdb refuses root.
func start(t testing.TB) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin}
	if s.dir, err = os.MkdirTemp("", "profllm-pg-"); err != nil { // short, as the name of a socket must be
		return nil, err
	}
	if os.Getuid() == 0 {
		if s.as, err = other(); err != nil {
			return nil, err
		}
		if err := os.Chown(s.dir, int(s.as.Uid), int(s.as.Gid)); err != nil {
			return nil, err
		}
	}
	out, err := s.command("initdb", "-D", s.dir+"/data", "--no-sync", "-A", "trust", "-U", "profllm", "-E", "UTF8",
		"--locale=C").CombinedOutput()
	if err != nil {
		os.RemoveAll(s.dir)
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	s.Start(t)
	return s, nil
}

func other() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("no user other than root to run PostgreSQL")
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return cmd
}

// Start starts the server again.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = s.command("postgres", "-D", s.dir+"/data", "-k", s.dir, "-c", "listen_addresses=", "-c", "fsync=off")
	s.process.Stdout, s.process.Stderr = &s.log, &s.log
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	await.True(t, func() bool { return s.command("pg_isready", "-h", s.dir).Run() == nil }, "PostgreSQL is ready")
}

// Kill ends the server at once, as a crash of its machine would.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.Process.Signal(syscall.SIGQUIT) //nolint:errcheck // immediate shutdown; it may have ended
		s.process.Wait()                          //nolint:errcheck
		s.process = nil
	}
}

// Ended reports whether Kill has ended the server.
func (s *Server) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process == nil
}

// Database is the URL of a new, empty database of this server.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	name := fmt.Sprintf("test%d", s.made)
	if out, err := s.command("createdb", "-h", s.dir, "-U", "profllm", name).CombinedOutput(); err != nil {
		t.Fatalf("createdb: %v: %s", err, out)
	}
	return fmt.Sprintf("postgres://profllm@/%s?host=%s", name, s.dir)
}

func required(environ []string) bool { return slices.Contains(environ, "PROFLLM_REQUIRE_POSTGRES=1") }
