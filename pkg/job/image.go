package job

import (
	"context"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/capture"
	"github.com/profllm/profllm/pkg/run"
)

// ImageUsed is what the runtime says of the image that a step's container is made of.
type ImageUsed struct {
	ID     string `json:"id"`     // of the image on that node
	Digest string `json:"digest"` // that the registry knows, or else the id
}

// ImageFile is the name below raw/ of what a runtime said of a step's image.
func ImageFile(step string) string { return "image-" + step + ".json" }

// imagePause is between two questions for a container that is not there yet: its image
// may have to be fetched.
const imagePause = 2 * time.Second

// recordImage asks for the container's image once it is there, beside its run, and keeps
// the answer. stop ends that. What is not known is left out.
func (b *box) recordImage(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause := poll; sleep(ctx, pause); pause = imagePause {
			used, ok := b.imageUsed(ctx)
			if !ok {
				continue
			}
			if err := run.WriteJSON((&Job{Dir: b.Contain.Dir}).path(run.RawDir, ImageFile(b.Step)), used); err != nil {
				b.logf("%v", err)
			}
			return
		}
	}()
	return func() { cancel(); <-done }
}

// imageUsed asks for the image of the container, and then for what registries call it;
// false if there is no such container yet.
func (b *box) imageUsed(ctx context.Context) (ImageUsed, bool) {
	id, err := b.ask(ctx, "inspect", "--format", "{{.Image}}", b.name)
	if err != nil || id == "" {
		return ImageUsed{}, false
	}
	if !strings.Contains(id, ":") { // podman leaves it out
		id = "sha256:" + id
	}
	used := ImageUsed{ID: id, Digest: id}
	names, err := b.ask(ctx, "image", "inspect", "--format", "{{range .RepoDigests}}{{.}} {{end}}", id)
	if err != nil {
		return used, true
	}
	for _, name := range strings.Fields(names) {
		if _, digest, ok := strings.Cut(name, "@"); ok {
			used.Digest = digest
			break
		}
	}
	return used, true
}

// ask is a short question to the runtime.
func (b *box) ask(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := b.process(ctx, args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = nil, nil, time.Second
	out, err := capture.Run(cmd)
	return strings.TrimSpace(string(out)), err
}
