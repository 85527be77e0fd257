package stage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/container"
	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
)

// Record is the file <file>.json beside a staged image.
type Record struct {
	Schema    string `json:"schema"` // profllm.image/1
	Reference string `json:"reference"`
	File      string `json:"file"` // the name, without its folder
	Size      int64  `json:"size_bytes"`
	Digest    string `json:"digest"` // SHA-256 of the file
	// Manifest is the digest of the image's manifest at its registry, "sha256:…"; "" if
	// the importer does not report it, or if the tag moved meanwhile.
	Manifest string    `json:"manifest,omitempty"`
	Importer string    `json:"importer"`
	Host     string    `json:"host"`
	Time     time.Time `json:"time"`
}

// Source is the reference from which the image was imported, with the digest of its
// manifest if that is known; "" for a file without a record.
func (r Record) Source() string {
	if r.Schema == "" {
		return ""
	}
	if ref, err := container.ParseReference(r.Reference); err != nil || ref.Digest != "" || r.Manifest == "" {
		return r.Reference
	}
	return r.Reference + "@" + r.Manifest
}

const recordSchema = "profllm.image/1"

// ErrConflict says that the file of an image has unexpected content.
var ErrConflict = errors.New("has unexpected content")

// Read looks for a staged image. A file without a record, as CloudAI leaves it, is
// accepted without a digest. The error is fs.ErrNotExist if there is no file, and
// ErrConflict if the record is of another image or the file does not have the recorded
// size.
func Read(item Item) (Record, error) {
	st, err := os.Stat(item.Path)
	if err != nil {
		return Record{}, err
	}
	var r Record
	err = run.ReadJSON(item.Path+".json", &r)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Record{Reference: item.Name, File: filepath.Base(item.Path), Size: st.Size()}, nil
	case err != nil:
		return r, err
	case item.Name != "" && !sameImage(r.Reference, item.Name):
		return r, fmt.Errorf("%s %w: it was imported from %s, not from %s\n\thint: remove the file, or one of the two references", item.Path, ErrConflict, r.Reference, item.Name)
	case r.Size != st.Size():
		return r, fmt.Errorf("%s %w: it has %d bytes, its record says %d\n\thint: rm %s, then stage again", item.Path,
			ErrConflict, st.Size(), r.Size, paste([]string{item.Path}))
	}
	return r, nil
}

func sameImage(a, b string) bool {
	ra, errA := container.ParseReference(a)
	rb, errB := container.ParseReference(b)
	return errA == nil && errB == nil && ra.Plain() == rb.Plain()
}

// Verify reads a staged file to its end and compares it with its record.
func Verify(item Item) (Record, error) {
	r, err := Read(item)
	if err != nil {
		return r, err
	}
	digest, _, err := container.CheckFile(item.Path)
	if err == nil && r.Digest != "" && digest != r.Digest {
		err = fmt.Errorf("%s %w: its digest is %s, its record says %s\n\thint: rm %s, then stage again", item.Path,
			ErrConflict, digest, r.Digest, paste([]string{item.Path}))
	}
	return r, err
}

func (s *Stager) stageImage(ctx context.Context, item Item) (Outcome, error) {
	o := Outcome{Item: item, State: Present}
	var rec Record
	done := func() (ok bool, err error) {
		rec, err = Read(item)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return false, nil
		case s.Force && (err == nil || sameImage(rec.Reference, item.Name)):
			return false, nil
		}
		return err == nil, err
	}
	err := s.alone(ctx, item.Path, done, func() error {
		o.State = Staged
		var err error
		rec, err = s.importImage(ctx, item)
		return err
	})
	o.Digest, o.Size = rec.Digest, rec.Size
	if o.State == Present && rec.Digest == "" {
		o.Detail = "no record beside the file, so the digest is unknown"
	}
	return o, err
}

// importImage makes the file under a temporary name, reads it to its end, writes the
// record and renames. The record comes first: a file without one would be taken for
// somebody else's, a record without a file for nothing.
func (s *Stager) importImage(ctx context.Context, item Item) (rec Record, err error) {
	if err := s.checkSpace(filepath.Dir(item.Path)); err != nil {
		return rec, err
	}
	temp := s.temp(item.Path)
	defer os.Remove(temp)
	argv, err := item.importer.Command(item.image, temp)
	if err != nil {
		return rec, err
	}
	if argv, err = s.place(item.Importer, argv); err != nil {
		return rec, fmt.Errorf("%w\n\thint: run this on a machine that has %s, or import the file yourself to %s", err,
			item.Importer, item.Path)
	}
	before := s.manifest(ctx, item)
	s.Log("%s", paste(argv))
	stop := s.watch(item, temp)
	said, err := s.execute(ctx, "", argv...)
	stop()
	if err != nil {
		return rec, err
	}
	manifest := manifestIn(said)
	if before != "" {
		if manifest = s.manifest(ctx, item); manifest != before {
			s.Log("note: %s was pushed again during the import: its registry digest is not recorded", item.Name)
			manifest = ""
		}
	}
	digest, size, err := container.CheckFile(temp)
	if err != nil {
		return rec, fmt.Errorf("%s ended with 0, but: %w", item.Importer, err)
	}
	rec = Record{
		Schema: recordSchema, Reference: item.Name, File: filepath.Base(item.Path), Size: size, Digest: digest,
		Manifest: manifest, Importer: item.Importer, Host: s.Host, Time: s.Now().UTC(),
	}
	if err := syncFile(temp); err != nil {
		return rec, err
	}
	if err := run.WriteJSON(item.Path+".json", rec); err != nil {
		return rec, err
	}
	return rec, durable.Move(temp, item.Path)
}

// manifest asks enroot for the digest of an image's manifest at its registry; "" where
// another program imports it, or enroot cannot say it (it can from 4.0 on).
func (s *Stager) manifest(ctx context.Context, item Item) string {
	if item.Importer != "enroot" {
		return ""
	}
	name, err := item.image.Enroot()
	if err != nil {
		return ""
	}
	argv, err := s.place("enroot", []string{"enroot", "digest", "docker://" + name})
	if err != nil {
		return ""
	}
	said, err := s.execute(ctx, "", argv...)
	if err != nil {
		s.Log("note: the registry digest of %s is not recorded: %s", item.Name,
			strings.TrimSuffix(strings.SplitN(err.Error(), "\n", 2)[0], ":"))
		return ""
	}
	return manifestIn(said)
}

var manifestForm = lazyregexp.New(`\bsha256:[0-9a-f]{64}\b`)

// manifestIn is the digest that a program printed last, "" if it printed none.
func manifestIn(said string) string {
	all := manifestForm.FindAllString(said, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

func syncFile(name string) error {
	f, err := regular.OpenLarge(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Chmod(0o644), f.Close())
}

// watch reports how an image grows until stop is called.
func (s *Stager) watch(item Item, temp string) (stop func()) {
	if s.Progress == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Second):
			}
			if st, err := os.Stat(temp); err == nil {
				s.Progress(item, st.Size())
			}
		}
	}()
	return func() { close(done); <-ended }
}
