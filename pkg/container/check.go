package container

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/profllm/profllm/pkg/regular"
)

// header is as much of a file as names its kind and its size.
const headerSize = 128

// Magic bytes of squashfs 4 and of SIF, and where they stand.
var (
	squashMagic = []byte("hsqs")
	sifMagic    = []byte("SIF_MAGIC\x00")
)

const sifMagicAt = 32 // behind the line that makes a SIF file executable

// Check reads an image file to its end. It returns the SHA-256 of what it read, and
// an error for what is no image or ends too early: squashfs and SIF say in their
// first bytes how long they are, an archive has an end and a manifest.
func Check(name string, r io.Reader) (digest string, err error) {
	sum, size := sha256.New(), int64(0)
	all := io.TeeReader(r, io.MultiWriter(sum, (*counter)(&size)))
	head := make([]byte, headerSize)
	n, err := io.ReadFull(all, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", err
	}
	head = head[:n]
	want, err := declared(head)
	if err != nil { // neither of the two: an archive, or nothing
		whole := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(head), all), 1<<20)
		if err := checkArchive(whole); err != nil {
			return "", fmt.Errorf("%s is not a squashfs, SIF or docker archive: %w", name, err)
		}
	}
	if _, err := io.Copy(io.Discard, all); err != nil {
		return "", err
	}
	if size < want {
		return "", fmt.Errorf("%s is truncated: %d of %d bytes", name, size, want)
	}
	return fmt.Sprintf("sha256:%x", sum.Sum(nil)), nil
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// errKind says that a header is of neither kind.
var errKind = errors.New("unknown kind")

// declared is the least size of a squashfs or SIF file by its own header.
func declared(head []byte) (int64, error) {
	var at []int // of little-endian 64-bit numbers whose sum is the size
	switch {
	case len(head) >= 48 && bytes.HasPrefix(head, squashMagic):
		at = []int{40} // bytes_used
	case len(head) >= headerSize && bytes.HasPrefix(head[sifMagicAt:], sifMagic):
		at = []int{112, 120} // where the data objects start, and their size
	default:
		return 0, errKind
	}
	var sum uint64
	for _, i := range at {
		n := binary.LittleEndian.Uint64(head[i:])
		if n > 1<<60 {
			return 1 << 62, nil // no file is as long: cut short, or not what it says
		}
		sum += n
	}
	return int64(sum), nil
}

// checkArchive walks an archive as docker save and podman save write it, plain or compressed by
// gzip, whose own checksum is at its end.
func checkArchive(r *bufio.Reader) error {
	if head, err := r.Peek(len(gzipMagic)); err == nil && bytes.Equal(head, gzipMagic) {
		z, err := gzip.NewReader(r)
		if err != nil {
			return err
		}
		if err := checkTar(z); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, z)
		return err
	}
	return checkTar(r)
}

func checkTar(r io.Reader) error {
	manifest := false
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		manifest = manifest || name == "manifest.json" || name == "index.json"
	}
	if !manifest {
		return errors.New("no manifest.json, and no index.json")
	}
	return nil
}

// CheckFile is Check of a file on disk. The file must not be empty.
func CheckFile(name string) (digest string, size int64, err error) {
	f, err := regular.OpenLarge(name)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	if !st.Mode().IsRegular() || st.Size() == 0 {
		return "", 0, fmt.Errorf("%s is empty, or no file", name)
	}
	digest, err = Check(name, f)
	return digest, st.Size(), err
}
