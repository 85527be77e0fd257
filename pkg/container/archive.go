package container

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/regular"
)

// archiveSuffixes end the names of the archives that docker load and podman load read.
var archiveSuffixes = []string{".tar", ".tar.gz", ".tgz", ".tar.zst"}

// IsArchive reports whether a file is an archive of docker save or podman save, by its name.
func IsArchive(file string) bool {
	return slices.ContainsFunc(archiveSuffixes, func(s string) bool { return strings.HasSuffix(file, s) })
}

// Archive is what an archive says about its first image.
type Archive struct {
	Tag string `json:"tag,omitempty"` // its first name, such as "vllm:0.15", "" for none
	// The ids of the image in a store, "sha256:…": the digest of its configuration, which is
	// Docker's and Podman's id, and the digest of its manifest, which is the id in a store of
	// containerd.
	IDs []string `json:"ids"`
}

const (
	mostIndex    = 4 << 20 // bytes of manifest.json or index.json
	mostManifest = 1 << 20 // bytes of a manifest among the blobs
	mostBlobs    = 1 << 10 // manifests that are remembered
)

// ReadArchive reads the manifest of an archive, plain or compressed by gzip. It loads nothing.
// Layers are skipped where the archive is not compressed; else all of it is read.
func ReadArchive(ctx context.Context, name string) (Archive, error) {
	f, err := regular.OpenLarge(name)
	if err != nil {
		return Archive{}, err
	}
	defer f.Close()
	a, err := readArchive(interruptible{ctx, f})
	if err != nil {
		return a, fmt.Errorf("read archive %s: %w", name, err)
	}
	return a, nil
}

// OpenArchive opens an archive without its compression by gzip.
func OpenArchive(ctx context.Context, name string) (io.ReadCloser, error) {
	f, err := regular.OpenLarge(name)
	if err != nil {
		return nil, err
	}
	plain, err := decompressed(interruptible{ctx, f})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open archive %s: %w", name, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{plain, f}, nil
}

// interruptible is a file that ends with an error once ctx is done.
type interruptible struct {
	ctx context.Context
	io.ReadSeeker
}

func (r interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.ReadSeeker.Read(p)
}

// saved is an element of manifest.json.
type saved struct {
	Config   string
	RepoTags []string
}

// index is index.json of an OCI layout, and a manifest among its blobs.
type index struct {
	Manifests []struct {
		Digest      string            `json:"digest"`
		Annotations map[string]string `json:"annotations"`
	} `json:"manifests"`
	Config struct {
		Digest string `json:"digest"`
	} `json:"config"`
}

// contents are the parts of an archive that describe its images.
type contents struct {
	saved   []saved
	layout  *index
	configs map[string]string // of OCI manifests: digest of the manifest → of its configuration
}

func readArchive(r io.ReadSeeker) (Archive, error) {
	plain, err := decompressed(r)
	if err != nil {
		return Archive{}, err
	}
	c := contents{configs: map[string]string{}}
	for t := tar.NewReader(plain); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Archive{}, err
		}
		if err := c.add(h, t); err != nil {
			return Archive{}, fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	return c.archive()
}

// decompressed is r itself, which can be skipped in, unless gzip compressed it.
func decompressed(r io.ReadSeeker) (io.Reader, error) {
	head := make([]byte, len(zstdMagic))
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head[:n], zstdMagic):
		return nil, errors.New("it is compressed by zstd, which profllm cannot read")
	case !bytes.HasPrefix(head[:n], gzipMagic):
		return r, nil
	}
	return gzip.NewReader(bufio.NewReaderSize(r, 1<<20))
}

// What begins compressed data: by gzip (RFC 1952) and by zstd (RFC 8878).
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// add reads one file of the archive, if it is one that describes an image.
func (c *contents) add(h *tar.Header, r io.Reader) error {
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	name := path.Clean(h.Name)
	digest, isBlob := strings.CutPrefix(name, "blobs/sha256/")
	switch {
	case name == "manifest.json":
		return decode(r, &c.saved)
	case name == "index.json":
		c.layout = &index{}
		return decode(r, c.layout)
	case isBlob && h.Size <= mostManifest && len(c.configs) < mostBlobs:
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		var m index
		if json.Unmarshal(data, &m) == nil && m.Config.Digest != "" { // else another blob
			c.configs["sha256:"+digest] = m.Config.Digest
		}
	}
	return nil
}

// decode reads a small JSON file.
func decode(r io.Reader, into any) error {
	data, err := io.ReadAll(io.LimitReader(r, mostIndex+1))
	if err != nil {
		return err
	}
	if len(data) > mostIndex {
		return regular.ErrLarge
	}
	return json.Unmarshal(data, into)
}

// archive is what the parts say together.
func (c *contents) archive() (Archive, error) {
	var a Archive
	add := func(id string) {
		if digestForm.MatchString(id) && !slices.Contains(a.IDs, id) {
			a.IDs = append(a.IDs, id)
		}
	}
	if len(c.saved) > 0 {
		first := c.saved[0]
		if len(first.RepoTags) > 0 {
			a.Tag = first.RepoTags[0]
		}
		// <hex>.json, or blobs/sha256/<hex> since Docker 25
		add("sha256:" + strings.TrimSuffix(path.Base(first.Config), ".json"))
	}
	if c.layout != nil && len(c.layout.Manifests) > 0 {
		first := c.layout.Manifests[0]
		a.Tag = cmp.Or(a.Tag, first.Annotations["io.containerd.image.name"],
			first.Annotations["org.opencontainers.image.ref.name"])
		add(c.configs[first.Digest])
		add(first.Digest)
	}
	if len(a.IDs) == 0 {
		return a, errors.New("neither manifest.json nor index.json names an image")
	}
	return a, nil
}
