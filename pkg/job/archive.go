package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/capture"
	"github.com/profllm/profllm/pkg/container"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
)

// archived makes sure that the image of an archive is in this node's store, and returns what the
// store calls it. The archive's own ids are compared, not its tag: of a rebuilt archive with the
// old tag, the new image is loaded, and another image of that tag is never run.
func (b *box) archived(ctx context.Context) (string, error) {
	a, err := b.readArchive(ctx)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, fs.ErrNotExist):
		return "", err
	case err != nil: // in a form that the runtime may read nevertheless
		b.logf("%v: it is loaded at every start", err)
	}
	if id := b.stored(ctx, a.IDs); id != "" {
		b.logf("image %s of %s is in this node's store: %s", cmp.Or(a.Tag, "without a name"), b.Load, id)
		return id, nil
	}
	defer b.alone(ctx)()
	if id := b.stored(ctx, a.IDs); id != "" {
		b.logf("image %s was loaded by another step: %s", cmp.Or(a.Tag, "without a name"), id)
		return id, nil
	}
	b.logf("loading image %s from %s", cmp.Or(a.Tag, "without a name"), b.Load)
	name, err := b.loadArchive(ctx)
	if err != nil {
		return "", err
	}
	return cmp.Or(b.stored(ctx, a.IDs), name), nil
}

// alone waits until no other step of the job loads an archive on this node: servers that share a
// node start together, and an image of 30 GB would be unpacked for each. Where the lock cannot be
// had, nothing but time is lost. release ends the turn.
func (b *box) alone(ctx context.Context) (release func()) {
	release, err := regular.Lock(ctx, cmp.Or(b.Env("TMPDIR"), "/tmp"),
		boxName(cmp.Or(b.Env("SLURM_JOB_ID"), "none"), "u"+strconv.Itoa(os.Getuid()), "load", "archive"))
	if err != nil {
		b.logf("%v", err)
		return func() {}
	}
	return release
}

// seenArchive is archive.json in the run directory: what an archive said, so that the steps of a
// run decompress it once.
type seenArchive struct {
	Path     string            `json:"path"`
	Size     int64             `json:"size_bytes"`
	Modified time.Time         `json:"modified"`
	Image    container.Archive `json:"image"`
}

// readArchive reads what the archive holds. A compressed one, which must be read to its end, is
// read again only if its file has changed.
func (b *box) readArchive(ctx context.Context) (container.Archive, error) {
	st, err := os.Stat(b.Load)
	if err != nil {
		return container.Archive{}, err
	}
	if strings.HasSuffix(b.Load, ".tar") || b.Contain.Dir == "" {
		return container.ReadArchive(ctx, b.Load)
	}
	file := (&Job{Dir: b.Contain.Dir}).path("archive.json")
	want := seenArchive{Path: b.Load, Size: st.Size(), Modified: st.ModTime().UTC()}
	var seen seenArchive
	if run.ReadJSON(file, &seen) == nil {
		if seen.Path == want.Path && seen.Size == want.Size && seen.Modified.Equal(want.Modified) {
			return seen.Image, nil
		}
	}
	if want.Image, err = container.ReadArchive(ctx, b.Load); err != nil {
		return want.Image, err
	}
	if err := run.WriteJSON(file, want); err != nil {
		b.logf("%v", err)
	}
	return want.Image, nil
}

// stored returns the first of some ids that the node's store has, "" for none.
func (b *box) stored(ctx context.Context, ids []string) string {
	for _, id := range ids {
		if _, err := b.ask(ctx, "image", "inspect", id); err == nil {
			return id
		}
	}
	return ""
}

// loadArchive puts the image of an archive into the store of this node. Docker and Podman print
// "Loaded image: NAME", or "Loaded image ID: sha256:…" for one without a name. Podman is given an
// archive by gzip without the compression, which its version 4.3.1 of Debian 12 cannot read.
func (b *box) loadArchive(ctx context.Context) (string, error) {
	args := []string{"load", "--quiet"}
	stdin := io.ReadCloser(nil)
	if b.Runtime == "podman" && strings.HasSuffix(b.Load, "gz") {
		plain, err := container.OpenArchive(ctx, b.Load)
		if err != nil {
			return "", err
		}
		defer plain.Close()
		stdin = plain
	} else {
		args = append(args, "--input", b.Load)
	}
	cmd := b.process(ctx, args...)
	cmd.Stdout = nil
	if stdin != nil {
		cmd.Stdin = stdin
	}
	out, err := capture.Run(cmd)
	if err != nil {
		return "", fmt.Errorf("%s load --input %s: %w", b.Runtime, b.Load, err)
	}
	for _, line := range strings.Split(string(out), "\n") {
		if label, name, ok := strings.Cut(strings.TrimSpace(line), ": "); ok &&
			strings.HasPrefix(label, "Loaded image") {
			return name, nil
		}
	}
	return "", fmt.Errorf("%s load --input %s: no image name in %q", b.Runtime, b.Load, out)
}

// pull is the policy of --pull that the options before the image set, "" for none.
func (b *box) pull() (policy string) {
	image := max(0, slices.Index(b.Args, b.Login))
	for i, arg := range b.Args[:image] {
		if value, ok := strings.CutPrefix(arg, "--pull="); ok {
			policy = value
		} else if arg == "--pull" {
			policy = b.Args[i+1]
		}
	}
	return policy
}

// pulled reports whether the runtime could get the image of a registry that wants a login.
func (b *box) pulled(ctx context.Context) bool {
	switch b.pull() {
	case "", "missing":
		return b.stored(ctx, []string{b.Login}) != ""
	case "never":
		return true
	}
	_, err := b.ask(ctx, "pull", "--quiet", b.Login)
	return err == nil
}

// loginLimit is longer than the limits of the two programs of container.Login.
const loginLimit = 70 * time.Second

// login logs in to the registry of an image that could not be pulled with the credentials that are
// there, where it is Amazon's. A job's environment is small: on the nodes, aws needs a role of the
// instance, or files in the home. Nothing of the login outlives it.
func (b *box) login(ctx context.Context) (ok bool) {
	argv := container.Login(b.program, b.Login)
	if argv == nil || ctx.Err() != nil || b.pulled(ctx) {
		return false
	}
	b.logf("logging in to the registry of %s", b.Login)
	ctx, cancel := context.WithTimeout(ctx, loginLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = b.environ, b.Stdout, b.Stderr, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what is left of the group
	}
	if err != nil {
		b.logf("log in to the registry of %s: %v", b.Login, err)
	}
	return err == nil
}
