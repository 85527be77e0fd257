package kube

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/profllm/profllm/pkg/capture"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/redact"
)

// Place is where a run lives: what every call of kubectl is told.
type Place struct {
	Kubeconfig string `json:"kubeconfig,omitempty"` // file, or a list of files as in $KUBECONFIG
	Context    string `json:"context,omitempty"`
	Namespace  string `json:"namespace"`
}

func (p Place) String() string {
	text := "namespace " + p.Namespace
	if p.Context != "" {
		text += " of context " + p.Context
	}
	return text
}

const (
	// requestLimit bounds each request of kubectl, and callLimit kubectl itself, which may make
	// several.
	requestLimit = 20 * time.Second
	callLimit    = 60 * time.Second
	// logLimit bounds the printing of one log.
	logLimit = 5 * time.Minute
	// mostAnswer bounds what kubectl may print for one call.
	mostAnswer = 256 << 20
)

// oldestClient is the oldest minor version of kubectl 1 that is used: server-side dry runs, and
// events of the core API, are the same from there on.
const oldestClient = 24

// CommandError is a kubectl that failed, ready to be tried by hand.
type CommandError struct {
	Argv   []string
	Stderr string
	Err    error
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("%s (%s)", cmp.Or(e.said(), e.Err.Error()), strings.Join(e.Argv, " "))
}

func (e *CommandError) Unwrap() error { return e.Err }

// logLine begins a line of kubectl's own log, which repeats the error, or tells of a cache.
var logLine = lazyregexp.New(`^[EWIF]\d{4} [^]]*\] ?`)

// said is what kubectl complained of, without its warnings and its log, unless there is nothing else.
func (e *CommandError) said() string {
	var lines []string
	logged := ""
	for line := range strings.Lines(e.Stderr) {
		line = strings.TrimSpace(line)
		switch head := logLine.FindString(line); {
		case head != "":
			logged = line[len(head):]
		case line != "" && !strings.HasPrefix(line, "Warning:") && !slices.Contains(lines, line):
			lines = append(lines, line)
		}
	}
	return cmp.Or(strings.Join(lines, "; "), logged)
}

// says reports whether kubectl gave one of the server's reasons, as "Error from server (NotFound)".
func (e *CommandError) says(reasons ...string) bool {
	return slices.ContainsFunc(reasons, func(r string) bool {
		return strings.Contains(e.Stderr, "Error from server ("+r+")")
	})
}

// unreached are texts of kubectl that got no answer of the server, or one that decides nothing.
var unreached = []string{
	"Unable to connect to the server", "connection refused", "i/o timeout", "no such host", "TLS handshake timeout",
	"context deadline exceeded", "Client.Timeout exceeded", "connection reset by peer", "EOF",
	"(ServerTimeout)", "(Timeout)", "(ServiceUnavailable)", "(TooManyRequests)", "etcdserver:", "http2: ",
	"the server is currently unable to handle the request", "The connection to the server", "connection lost",
}

// refused reports whether the server, or kubectl before it asked, has certainly changed nothing.
func (e *CommandError) refused() bool {
	var exit *exec.ExitError
	if errors.Is(e.Err, exec.ErrNotFound) {
		return true
	}
	if !errors.As(e.Err, &exit) || !exit.Exited() {
		return false
	}
	return !slices.ContainsFunc(unreached, func(text string) bool { return strings.Contains(e.Stderr, text) })
}

// gone reports whether a log is no longer there, which no other try changes.
func (e *CommandError) gone() bool {
	return e.says("NotFound") ||
		e.says("BadRequest") && strings.Contains(e.Stderr, "previous terminated container") &&
			strings.Contains(e.Stderr, "not found")
}

// denied reports whether this account may not do what kubectl was to do.
func (e *CommandError) denied() bool {
	return e.says("Forbidden", "Unauthorized") || strings.Contains(e.Stderr, "You must be logged in")
}

// asError finds the CommandError in an error.
func asError(err error) *CommandError {
	var e *CommandError
	if errors.As(err, &e) {
		return e
	}
	return &CommandError{Argv: []string{"kubectl"}, Err: err}
}

// kubectl runs kubectl in a place and returns what it printed.
func (k *Kube) kubectl(ctx context.Context, at Place, stdin []byte, args ...string) ([]byte, error) {
	var out bytes.Buffer
	err := k.kubectlTo(ctx, at, stdin, &out, args...)
	return out.Bytes(), err
}

// kubectlTo runs kubectl in a place; what it prints goes to out.
func (k *Kube) kubectlTo(ctx context.Context, at Place, stdin []byte, out io.Writer, args ...string) error {
	return k.call(ctx, at, stdin, out, &capture.Output{Most: capture.Complaint}, args...)
}

// call runs kubectl in a place. Every call names the place, and ends.
func (k *Kube) call(ctx context.Context, at Place, stdin []byte, out io.Writer, stderr *capture.Output,
	args ...string) error {
	request, limit := requestLimit, k.limit
	if args[0] == "logs" {
		request, limit = logLimit, max(logLimit, limit)
	}
	ctx, done := context.WithTimeout(ctx, limit)
	defer done()
	argv, cmd, err := k.command(ctx, at, request, args...)
	if err != nil {
		return err
	}
	cmd.Stdin = bytes.NewReader(stdin)
	answer := &capture.Output{Most: mostAnswer, To: out}
	cmd.Stdout, cmd.Stderr = answer, stderr
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("no answer in %s: %w", limit, ctx.Err())
	case answer.Err() != nil:
		err = answer.Err()
	}
	if err != nil {
		return &CommandError{Argv: argv, Stderr: redact.Complaint(stderr.String(), cmd.Env), Err: err}
	}
	return nil
}

// command is kubectl in a place, which ends with ctx. request bounds each of its requests, 0 for none.
func (k *Kube) command(ctx context.Context, at Place, request time.Duration, args ...string) (argv []string,
	cmd *exec.Cmd, err error) {
	argv = []string{"kubectl"}
	env := k.env
	switch {
	case strings.Contains(at.Kubeconfig, ":"):
		env = append(slices.Clip(env), "KUBECONFIG="+at.Kubeconfig)
	case at.Kubeconfig != "":
		argv = append(argv, "--kubeconfig="+at.Kubeconfig)
	}
	if at.Context != "" {
		argv = append(argv, "--context="+at.Context)
	}
	if at.Namespace != "" {
		argv = append(argv, "--namespace="+at.Namespace)
	}
	argv = append(argv, "--request-timeout="+request.String())
	argv = append(argv, args...)
	program, err := k.program()
	if err != nil {
		return nil, nil, &CommandError{Argv: argv, Err: err}
	}
	cmd = exec.CommandContext(ctx, program, argv[1:]...)
	cmd.Env = env
	// A group of its own: a ^C at the terminal must not kill kubectl while it creates something.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return argv, cmd, nil
}

// program is the path of kubectl on the PATH of the caller's environment.
func (k *Kube) program() (string, error) {
	for _, kv := range slices.Backward(k.env) {
		if list, ok := strings.CutPrefix(kv, "PATH="); ok {
			for _, dir := range strings.Split(list, ":") {
				if path, err := exec.LookPath(dir + "/kubectl"); err == nil && dir != "" {
					return path, nil
				}
			}
			break
		}
	}
	return "", fmt.Errorf("kubectl: %w", exec.ErrNotFound)
}

// checkClient makes sure that kubectl is there and not too old.
func (k *Kube) checkClient(ctx context.Context) error {
	out, err := k.kubectl(ctx, Place{}, nil, "version", "--client", "--output=json")
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("kubectl is not on the PATH\n\thint: install kubectl, of the cluster's version or one minor version from it")
	}
	if err != nil {
		return err
	}
	var v struct {
		Client struct {
			Major string `json:"major"`
			Minor string `json:"minor"`
			Git   string `json:"gitVersion"`
		} `json:"clientVersion"`
	}
	if err := json.Unmarshal(out, &v); err != nil {
		return fmt.Errorf("kubectl version --client --output=json: %w", err)
	}
	minor := 0
	fmt.Sscanf(v.Client.Minor, "%d", &minor) // some builds write 24+
	if v.Client.Major != "1" || minor < oldestClient {
		return fmt.Errorf("kubectl is %s, and profllm needs 1.%d or later", v.Client.Git, oldestClient)
	}
	return nil
}
